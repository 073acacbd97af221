"""The power may go at any instant: no reply is lost, none stands twice where the platform can tell."""

from collections import Counter

import pytest

from actors.gateway.parts import OutboxRules
from messages.gateway import Say
from tests.actors.gateway.post_office import Fuse, PostOffice, say

pytestmark = pytest.mark.slow

RULES = {
    "key": OutboxRules(limit=20, idempotency_key=True),
    "history": OutboxRules(limit=20, history=True),
    "neither": OutboxRules(limit=20),
}

NOTICE = "/undelivered"

SCRIPT: tuple[Say, ...] = (
    say("a1", "first of a", chat="a"),
    say("a2", "second of a, and it is longer than one post", chat="a"),
    say("b1", "first of b", chat="b"),
    say("a3", "third of a", chat="a"),
)


async def live(how: str, *at: int) -> PostOffice:
    """Play the script through crashes, as sessions would: at each start they ask again for what they owe."""
    it = PostOffice(RULES[how], Fuse(*at))
    for _ in range(len(at) + 1):
        await it.start()
        told = {ending.delivery_id for ending in it.told}
        await it.say(*(each for each in SCRIPT if each.delivery_id not in told))
        if not it.fuse.out:
            await it.passes(200)
        if not it.fuse.out:
            break
        await it.crash()
        it.fuse.mend()
    await it.crash()
    return it


def check(it: PostOffice, how: str) -> None:
    posted = [p for p in it.chats.posted if not p.post.delivery_id.endswith(NOTICE)]
    copies = Counter(p.post.key for p in posted)
    assert set(it.delivered()) | set(it.failed()) == {each.delivery_id for each in SCRIPT}, (
        "a session is stuck"
    )
    if how == "neither":
        assert max(copies.values()) <= 2, "more than one duplicate"
    else:
        assert it.failed() == []
        assert set(copies.values()) == {1}, "a reply stands twice"
    seen: set[str] = set()
    for each in posted:
        assert each.post.key not in seen or each.post.maybe_duplicate, "a duplicate is not marked"
        seen.add(each.post.key)
    for chat in "ab":
        shown = "".join(dict.fromkeys(p.post.body.text for p in posted if p.post.place.chat == chat))
        said = [each for each in SCRIPT if each.origin.chat == chat and each.delivery_id not in it.failed()]
        if not it.failed():
            assert shown == "".join(each.parts[0].text for each in said), "lost, or out of order"


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("at", range(1, 42))
async def test_D12_the_power_may_go_at_any_instant(how: str, at: int) -> None:
    it = await live(how, at)
    check(it, how)
    assert it.failed() == []


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("second", range(1, 28))
async def test_and_again_soon_after(how: str, second: int) -> None:
    """Where nothing can tell, who loses the power twice over one part is told that it may be missing."""
    it = await live(how, second + 3, second)
    check(it, how)
    told = {p.post.delivery_id for p in it.chats.posted if p.post.delivery_id.endswith(NOTICE)}
    assert told == {failed + NOTICE for failed in it.failed()}


async def test_the_walk_is_long_enough() -> None:
    """The last cuts of the walk come after everything is done: it has seen every instant."""
    it = await live("key", 41)
    assert not it.fuse.out
    assert len(it.told) == len(SCRIPT)
