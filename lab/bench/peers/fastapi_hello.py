"""FastAPI with Mangum: a route that returns what it was sent. It knows nothing of A2A."""

from typing import Any

from fastapi import FastAPI
from mangum import Mangum

app = FastAPI(openapi_url=None)


@app.post("/")
async def answer(body: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": body["id"], "result": {"task": {"id": "1"}}}


handler = Mangum(app, lifespan="off")
