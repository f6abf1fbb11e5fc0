"""The ASGI application."""

from a2a_lambda.http.app import create_app

__all__ = ["create_app"]
