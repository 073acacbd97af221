"""POST /api/send: who may, and what is answered."""

from typing import Any

import pytest

from messages.ids import DeliveryId
from messages.sending import SendEnded
from tests.actors.console.serving import serving
from tests.fakes.desk import FakeDesk

HI = {"target": "owl:7", "text": "hi"}


@pytest.mark.parametrize(("state", "status"), [("posted", 200), ("owed", 202)])
async def test_how_far_it_has_come_is_told(state: Any, status: int) -> None:
    desk = FakeDesk()
    desk.sends_end = SendEnded(delivery_id=DeliveryId("send-1"), state=state, receipt="p1")
    async with serving(desk) as house, house.web.post("/api/send", json=HI) as sent:
        assert (sent.status, (await sent.json())["state"]) == (status, state)
    assert desk.sent[0].target == "owl:7"


async def test_a_failure_and_a_refusal_say_why() -> None:
    desk = FakeDesk()
    desk.sends_end = SendEnded(delivery_id=DeliveryId("send-1"), state="failed", why="the chat is gone")
    async with serving(desk) as house:
        async with house.web.post("/api/send", json=HI) as failed:
            assert (failed.status, (await failed.json())["error"]["message"]) == (502, "the chat is gone")
        desk.will_not_send = "no such chat"
        async with house.web.post("/api/send", json=HI) as refused:
            assert (refused.status, (await refused.json())["error"]["message"]) == (422, "no such chat")


async def test_files_are_for_the_same_machine_only() -> None:
    async with serving() as house:
        body = {**HI, "file": "/etc/passwd"}
        async with house.web.post("/api/send", json=body) as remote:
            assert remote.status == 403
        assert house.desk.sent == []
        async with house.control.post("/api/send", json=body) as local:
            assert local.status == 200
        assert house.desk.sent[0].file == "/etc/passwd"


@pytest.mark.parametrize(
    "body", [{}, {"target": ""}, {"target": 7}, {**HI, "wait_s": 9999}, {**HI, "wait_s": -1}, {**HI, "x": 1}]
)
async def test_a_body_of_the_wrong_shape_is_refused(body: dict[str, Any]) -> None:
    async with serving() as house:
        async with house.web.post("/api/send", json=body) as refused:
            assert refused.status == 422
        assert house.desk.sent == []


async def test_strangers_and_a_house_that_is_not_ready_send_nothing() -> None:
    async with serving() as house:
        async with house.stranger.post("/api/send", json=HI) as stranger:
            assert stranger.status == 401
        house.desk.is_ready(False)
        async with house.web.post("/api/send", json=HI) as early:
            assert early.status == 503
        assert house.desk.sent == []
