"""The application that `make run` serves: the kit's, the playground, and a page for OpenAPI's document."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import fastapi_offline
from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.telemetry import TelemetryConfig
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

from a2a_lambda.errors import ConfigurationError, Unavailable
from a2a_lambda.http.app import create_app
from a2a_lambda.http.error_responses import error_response
from a2a_lambda.kit import Kit
from a2a_lambda.protocol.model import Json
from a2a_lambda.settings import Settings
from tools.agents import imports, lost
from tools.agents.watch import Watch
from tools.dev import console, event_sources, spans
from tools.dev.log_lines import LINES
from tools.playground.app import Playground, Target
from tools.state import BUCKET, local_key

if TYPE_CHECKING:
    from starlette.types import ASGIApp

NO_SPANS = TelemetryConfig(tracing=False)
"""Of FastAPI itself: the kit has a span for each request."""

logger = logging.getLogger(__name__)


def create() -> "ASGIApp":
    """Make the application. uvicorn does so after every edit."""
    console.install()
    Watch(Settings.of(os.environ).agents).start()
    logging.getLogger().addHandler(LINES)
    spans.start(LINES)
    agents: list[str] = []
    reason = ""
    operate: Callable[[Json], Json] | None = None
    try:
        kit = Kit.of_environment()
        if kit.settings.queue:
            worker = event_sources.start(kit)
            operate = lambda selection: worker({"schedules": selection}, event_sources.LambdaContext())  # noqa: E731
        agents = list(kit.agents)
        folder, cards = kit.settings.agents, {name: kit.agents[name].card for name in agents}
        for sentence in [*imports.find_missing(folder), *lost.find_lost(folder, cards)]:
            print(f"warning: {sentence}", file=sys.stderr, flush=True)
        fastapi = FastAPI(openapi_url=None, telemetry=NO_SPANS)
        _serve_docs(fastapi)
        app: ASGIApp = create_app(kit, fastapi)
    except ConfigurationError as error:  # the next edit may fix it
        reason = str(error)
        print(f"error: {reason}", file=sys.stderr)
        app = unavailable_app(reason)
    except Exception as error:
        logger.exception("the application cannot start")
        reason = f"the application cannot start: {error!r}"
        app = unavailable_app(reason)
    target = Target(
        url=os.environ["A2A_BASE_URL"],
        title="make run",
        agents=agents,
        key=local_key(),
        log=LINES.follow,
        operate=operate,
        files=f"{os.environ['A2A_EMULATOR']}/{BUCKET}/" if os.environ.get("A2A_FILES_BUCKET") else "",
        error=reason,
    )
    return Playground(target, console.RequestLog(app), hosts=[urlsplit(target.url).hostname or ""])


def _serve_docs(app: FastAPI) -> None:
    """Serve /docs: Swagger UI with the OpenAPI document. Its files are on this machine."""
    files = Path(fastapi_offline.__file__).with_name("static")
    app.mount("/docs/files", StaticFiles(directory=files))

    @app.get("/docs")
    def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="OpenAPI",
            swagger_js_url="/docs/files/swagger-ui-bundle.js",
            swagger_css_url="/docs/files/swagger-ui.css",
            swagger_favicon_url="/playground/icon.svg",
        )


def unavailable_app(reason: str) -> FastAPI:
    """An application that answers every request with the reason why there is no other."""
    app = FastAPI(openapi_url=None, telemetry=NO_SPANS)

    @app.api_route("/{path:path}", methods=["GET", "HEAD", "POST"])
    async def unavailable(path: str) -> Response:
        return error_response(Unavailable(reason))

    return app
