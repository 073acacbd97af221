"""The routes of the connections to chat platforms: how they do, and restart, pause and resume."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import read_nothing
from actors.console.guard import DOOR
from actors.console.port import Desk
from actors.console.wire import ApiError, json_response
from actors.gateway.platform_control import PlatformControlError
from messages.platforms import PlatformWish

_WISHES: Final[tuple[PlatformWish, ...]] = ("restart", "pause", "resume")


class PlatformApi:
    """`/api/platforms`: list; `/api/platforms/NAME/restart|pause|resume`, where NAME may hold a slash."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        return [
            Route("/api/platforms", self.listed),
            Route("/api/platforms/{name:path}/{wish}", self.wished, methods=["POST"]),
        ]

    async def listed(self, _: Request) -> Response:
        states = self._desk.platforms()
        return json_response({"platforms": [state.model_dump(mode="json") for state in states]})

    async def wished(self, request: Request) -> Response:
        await read_nothing(request)
        wish = next((each for each in _WISHES if each == request.path_params["wish"]), None)
        if wish is None:
            raise ApiError(404, f"one of {', '.join(_WISHES)}", code="no_such_wish")
        by = "the command line" if request.scope[DOOR] == "control" else "the web"
        try:
            return json_response(await self._desk.control_platform(request.path_params["name"], wish, by=by))
        except PlatformControlError as error:
            raise ApiError(409, str(error), code="not_possible") from None
