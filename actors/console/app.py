"""The console's ASGI application: routes, and errors in one shape."""

from http import HTTPStatus

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from actors.console.access_api import AccessApi
from actors.console.api import Api, Surroundings
from actors.console.dead_letters_api import DeadLettersApi
from actors.console.guard import DOOR
from actors.console.openai_api import OpenAiApi
from actors.console.pages import Pages
from actors.console.platform_api import PlatformApi
from actors.console.query_api import QueryApi
from actors.console.search_api import SearchApi
from actors.console.send_api import SendApi
from actors.console.store_api import StoreApi
from actors.console.wire import ApiError, ClientGoneError
from store.journal import JournalError

log = structlog.get_logger(__name__)


def build_app(around: Surroundings) -> Starlette:
    """Return the application, without the guard that each door puts before it."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        """Whether messages are taken. A platform that is down takes nothing from the others: it is only told.

        Anybody may ask, for a probe has no token. Reasons name files and accounts: they
        are for those who know the token, or come through the control socket.
        """
        known = request.scope[DOOR] == "control" or around.access.is_known(dict(request.scope["headers"]))
        taking = around.desk.ready() and not around.open_requests.closing
        problem = around.desk.problem() if taking else "starting or stopping"
        if problem and taking and not known:
            problem = "store: trouble"
        platforms = {
            each.name: each.state if known else each.state.partition(":")[0]
            for each in around.desk.platforms()
        }
        content = {"ready": not problem, "problem": problem, "platforms": platforms}
        return JSONResponse(content, 503 if problem else 200)

    async def metrics(_: Request) -> Response:
        return Response(around.desk.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        *OpenAiApi(around).routes(),
        *Api(around).routes(),
        *QueryApi(around).routes(),
        *StoreApi(around).routes(),
        *SearchApi(around).routes(),
        *DeadLettersApi(around.desk).routes(),
        *AccessApi(around.desk).routes(),
        *SendApi(around).routes(),
        *PlatformApi(around.desk).routes(),
        *Pages(around.access).routes(),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ClientGoneError, _client_gone)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(JournalError, _journal_error)
    app.add_exception_handler(Exception, _crash)
    return app


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _client_gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase.lower()
    response = ApiError(error.status_code, f"{request.method} {request.url.path}: {phrase}").response()
    response.headers.update(error.headers or {})
    return response


async def _journal_error(request: Request, error: Exception) -> Response:
    log.error("a request could not be journalled", path=request.url.path, error=str(error))
    message = "it could not be stored, so it was not taken; try again"
    return ApiError(503, message, code="journal_unavailable", retry_after_s=2).response()


async def _crash(_: Request, __: Exception) -> Response:  # the server logs it, with its traceback
    return ApiError(500, "something went wrong here; the log says what", code="internal_error").response()
