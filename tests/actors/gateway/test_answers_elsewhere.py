"""A platform may say that its answers go elsewhere than back; a mistake in that loses none."""

from dataclasses import replace

import pytest

from actors.gateway.delivery import Delivery
from actors.gateway.platform_rooms import Platforms
from actors.gateway.platforms.webhook import PLATFORM
from actors.gateway.registry import Registry
from actors.runtime import ActorSystem
from messages.gateway import ChatType, Origin, Part, Say, SayingFailed, SayingSucceeded
from messages.ids import DeliveryId, MessageId, SessionKey
from messages.settings import PlatformSettings
from tests.fakes.clock import ManualClock

ROUTES = {
    name: {"secret": "a-secret-of-some-length", "target": target}
    for name, target in {"back": "origin", "away": "owl:7:8", "kept": "local", "wrong": "crow:1"}.items()
}
SETTINGS = {"webhook": PlatformSettings.model_validate({"options": {"routes": ROUTES}})}


def say(route: str) -> Say:
    return Say(
        delivery_id=DeliveryId(f"d-{route}"),
        session_key=SessionKey("agent:main:webhook:main:group:x"),
        origin=Origin(platform="webhook", chat_type=ChatType.GROUP, chat=route),
        parts=(Part(text="hi"),),
        reply_to=MessageId("m1"),
    )


async def test_answers_go_where_the_route_says(system: ActorSystem, clock: ManualClock) -> None:
    platforms = Platforms.prepare(SETTINGS, {}, Registry.discover(()))
    posted: dict[str, list[Say]] = {"webhook": [], "owl": []}
    ended: list[SayingSucceeded | SayingFailed] = []
    why: list[str] = []
    delivery = Delivery.start(
        system,
        {name: says.append for name, says in posted.items()},
        lambda _, ending: ended.append(ending),
        homes={"webhook": None, "owl": None},
        target_of=platforms.target_of,
        on_local=why.append,
    )
    for route in ROUTES:
        delivery.tell(say(route))
    await clock.settle()
    (back,), (away,) = posted["webhook"], posted["owl"]
    assert (back.origin.chat, back.reply_to) == ("back", "m1")
    assert (away.origin.chat, away.origin.thread, away.reply_to) == ("7", "8", None)
    assert [ending.delivery_id for ending in ended] == ["d-kept", "d-wrong"]
    assert len(why) == 1
    assert "crow:1" in why[0]


@pytest.mark.parametrize("platform", ["webhook", "owl"])
def test_a_platform_that_cannot_say_it_gets_its_answers_back(platform: str) -> None:
    def fails(*_: object) -> str:
        raise RuntimeError("not my day")

    registry = Registry.discover(())
    registry.register(replace(PLATFORM, target_of=fails))
    platforms = Platforms.prepare(SETTINGS, {}, registry)
    origin = Origin(platform=platform, chat_type=ChatType.GROUP, chat="away")
    assert platforms.target_of(origin) == "origin"
