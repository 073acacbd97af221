"""The route of access: who may talk to us, and changes of it. Whoever may use the console may do all of it."""

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.guard import DOOR
from actors.console.port import Desk
from actors.console.wire import ApiError, json_response, read_body
from messages.access import AccessAsked, AnyWish

_WISH: TypeAdapter[AnyWish] = TypeAdapter(AnyWish)


class AccessApi:
    """`POST /api/access`: one wish (`messages.access`) as JSON; the answer says what came of it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [Route("/api/access", self.wished, methods=["POST"])]

    async def wished(self, request: Request) -> Response:
        try:
            wish = _WISH.validate_json(await read_body(request))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"][1:])
            raise ApiError(
                422, f"{where}: {first['msg']}" if where else first["msg"], param=where or None
            ) from None
        if not self._desk.ready():
            raise ApiError(
                503, "not ready: starting or stopping; try again", code="not_ready", retry_after_s=2
            )
        by = "the command line" if request.scope[DOOR] == "control" else "the web"
        return json_response(await self._desk.access(AccessAsked(wish=wish, by=by)))
