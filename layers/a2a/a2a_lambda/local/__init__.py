"""What runs on a developer's machine: the server of `make run`, its emulator of AWS, `make key`."""
