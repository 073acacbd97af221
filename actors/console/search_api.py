"""GET /api/search: full-text search in all conversations."""

import json

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import Surroundings
from actors.console.wire import ApiError, json_response
from messages.search import SearchAsked
from store.search_keeper import SearchUnavailableError
from store.search_text import SearchWordsError

_TEXTS = ("platform", "chat", "user", "session_key", "since", "until")


class SearchApi:
    """The route under /api/search."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def routes(self) -> list[Route]:
        return [Route("/api/search", self.search)]

    async def search(self, request: Request) -> Response:
        asked = asked_in(request)
        try:
            found = await self._around.desk.search(asked)
        except SearchWordsError as error:
            raise ApiError(422, str(error), param="words") from None
        except SearchUnavailableError as error:
            raise ApiError(503, str(error), code="search_unavailable", retry_after_s=5) from None
        return json_response(found)


def asked_in(request: Request) -> SearchAsked:
    """Read a search from a request's query string. Raises ApiError 422, saying what is wrong.

    `words`, and `platform`, `chat`, `user`, `session_key`, `role` (may be repeated),
    `since`, `until` (ISO 8601, with a zone), `limit`, `newest_first`.
    """
    given = request.query_params
    unknown = sorted(set(given) - {"words", "role", "limit", "newest_first", *_TEXTS})
    if unknown:
        raise ApiError(422, f"{unknown[0]}: unknown", param=unknown[0])
    fields: dict[str, object] = {name: given[name] for name in _TEXTS if given.get(name)}
    fields["words"] = given.get("words", "")
    if roles := given.getlist("role"):
        fields["roles"] = roles
    for name in ("limit", "newest_first"):
        if name in given:
            fields[name] = _plain_value(given[name])
    try:
        return SearchAsked.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0])
        raise ApiError(422, f"{name}: {first['msg'].removeprefix('Value error, ')}", param=name) from None


def _plain_value(text: str) -> object:
    """Return a number or a truth value for a text that is one; anything else as it is, to be refused."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
