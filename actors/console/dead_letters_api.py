"""The routes of dead letters: what was given up, and what an operator decides about it."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import read_nothing
from actors.console.guard import DOOR
from actors.console.port import DeadLetterError, Desk
from actors.console.wire import ApiError, json_response
from messages.dead_letters import DeadLetter


class DeadLettersApi:
    """`/api/dead-letters`: list, show, retry, drop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        one = "/api/dead-letters/{number:int}"
        return [
            Route("/api/dead-letters", self.listed),
            Route(one, self.shown),
            Route(one + "/retry", self.retried, methods=["POST"]),
            Route(one + "/drop", self.dropped, methods=["POST"]),
        ]

    async def listed(self, _: Request) -> Response:
        letters = await self._desk.dead_letters()
        return json_response({"dead_letters": [letter.model_dump(mode="json") for letter in letters]})

    async def shown(self, request: Request) -> Response:
        number = int(request.path_params["number"])
        for letter in await self._desk.dead_letters():
            if letter.id == number:
                return json_response(letter)
        raise ApiError(404, f"there is no dead letter {number}", code="no_such_letter")

    async def retried(self, request: Request) -> Response:
        return await self._decide(request, self._desk.retry_dead_letter)

    async def dropped(self, request: Request) -> Response:
        return await self._decide(request, self._desk.drop_dead_letter)

    async def _decide(self, request: Request, decide: Callable[..., Awaitable[DeadLetter]]) -> Response:
        await read_nothing(request)
        by = "the command line" if request.scope[DOOR] == "control" else "the web"
        try:
            return json_response(await decide(int(request.path_params["number"]), by=by))
        except DeadLetterError as error:
            raise ApiError(409, str(error), code="not_possible") from None
