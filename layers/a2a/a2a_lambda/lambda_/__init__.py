"""Lambda adapters: `streaming` turns events into ASGI calls whose bytes leave at once, `runtime` teaches
managed Python to send them."""
