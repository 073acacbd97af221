"""POST /api/query and the deletion of sessions, over real sockets."""

from typing import Any

import pytest

from messages.ids import SessionKey
from store.query import Answer
from tests.actors.console.serving import House, serving
from tests.fakes.desk import Talk

pytestmark = pytest.mark.slow

KEY = SessionKey("agent:main:web:main:dm:a b")
DELETE = "/api/sessions/agent%3Amain%3Aweb%3Amain%3Adm%3Aa%20b/delete"


async def post(house: House, path: str, body: Any, status: int = 200) -> Any:
    async with house.web.post(path, json=body) as response:
        answer = await response.json()
        assert response.status == status, answer
        return answer


async def test_a_query_goes_in_and_its_answer_comes_out_as_it_is() -> None:
    async with serving() as house:
        house.desk.answers = Answer(b'{"columns": [], "truncated": null, "rows": [[1]]}', 1, None)
        answer = await post(house, "/api/query", {"sql": "SELECT $1", "params": ["a", 1, 1.5, None, True]})
        assert answer["rows"] == [[1]]
        assert house.desk.queries == [("SELECT $1", ("a", 1, 1.5, None, True))]


async def test_strangers_ask_nothing_and_delete_nothing() -> None:
    async with serving() as house:
        house.desk.talks[KEY] = Talk(KEY)
        for path, body in (("/api/query", {"sql": "SELECT 1"}), (DELETE, {"confirm": KEY})):
            async with house.stranger.post(path, json=body) as response:
                assert response.status == 401
        assert house.desk.queries == []
        assert KEY in house.desk.talks


async def test_what_is_wrong_with_a_query_is_told() -> None:
    async with serving() as house:
        house.desk.query_fails = "Parser Error\n\nLINE 1: SELEC\n        ^"
        answer = await post(house, "/api/query", {"sql": "SELEC"}, 422)
        assert answer["error"]["message"] == house.desk.query_fails
        assert answer["error"]["param"] == "sql"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"sql": 1},
        {"sql": "SELECT 1", "timeout_s": 0},
        {"sql": "SELECT 1", "timeout_s": 601},
        {"sql": "SELECT 1", "max_rows": 0},
        {"sql": "SELECT 1", "max_rows": 1_000_001},
        {"sql": "SELECT 1", "params": [[1]]},
        {"sql": "SELECT 1", "parms": []},
    ],
)
async def test_a_wrong_body_is_refused(body: Any) -> None:
    async with serving() as house:
        await post(house, "/api/query", body, 422)
        assert house.desk.queries == []


async def test_a_session_is_deleted_by_whoever_says_its_key_twice() -> None:
    async with serving() as house:
        house.desk.talks[KEY] = Talk(KEY)
        await post(house, DELETE, {"confirm": "yes"}, 422)
        assert KEY in house.desk.talks
        answer = await post(house, DELETE, {"confirm": KEY})
        assert answer["session_key"] == KEY
        assert answer["remains"]
        assert house.desk.talks == {}
        await post(house, DELETE, {"confirm": KEY}, 404)
