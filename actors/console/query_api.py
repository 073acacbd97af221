"""POST /api/query, and POST /api/sessions/{key}/delete: what the history is asked, and made to forget."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import Surroundings
from actors.console.bodies import Body
from actors.console.wire import ApiError, json_response, read_json
from actors.gateway.erasure import WHAT_REMAINS, UnknownSessionError
from messages.ids import SessionKey
from store.query import MOST_ROWS
from store.store import QueryError

LONGEST_S = 600.0


class QueryBody(Body):
    """POST /api/query."""

    sql: str
    params: Annotated[tuple[str | int | float | bool | None, ...], Field(strict=False)] = ()
    timeout_s: Annotated[float, Field(gt=0, le=LONGEST_S)] = 30.0
    max_rows: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 10_000


class DeleteBody(Body):
    """POST /api/sessions/{key}/delete: says the key once more, so that no slip deletes anything."""

    confirm: str


class QueryApi:
    """The routes of the history as a whole."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._desk = around.desk

    def routes(self) -> list[Route]:
        return [
            Route("/api/query", self.query, methods=["POST"]),
            Route("/api/sessions/{key}/delete", self.delete, methods=["POST"]),
        ]

    async def query(self, request: Request) -> Response:
        """Answer one SELECT; see `store.query.Answer`. A client that goes away stops it."""
        body = await read_json(request, QueryBody)
        asked = self._desk.query(body.sql, body.params, timeout_s=body.timeout_s, max_rows=body.max_rows)
        try:
            answer = await self._around.open_requests.attend(request, asked)
        except QueryError as error:
            raise ApiError(422, str(error), param="sql", code="query_failed") from None
        return Response(answer.json, 200, {"cache-control": "no-store"}, "application/json")

    async def delete(self, request: Request) -> Response:
        """Delete a session's history for good."""
        key = SessionKey(request.path_params["key"])
        body = await read_json(request, DeleteBody)
        if body.confirm != key:
            raise ApiError(422, "confirm: must be the session key itself", param="confirm")
        try:
            erased = await self._desk.erase(key)
        except UnknownSessionError as error:
            raise ApiError(404, str(error), code="unknown_session") from None
        except TimeoutError:
            raise ApiError(503, "the session cannot be reached now; try again", retry_after_s=2) from None
        return json_response({**erased.model_dump(mode="json"), "remains": list(WHAT_REMAINS)})
