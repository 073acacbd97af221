"""What happens to messages when connections, servers and answers are lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.gateway.edge import EdgeError, LastHeard
from messages.delivery import ProblemKind
from messages.gateway import EdgeHeard, MessageReceived, Receipt
from tests.counterparts.synapse import PATIENCE_S, Between, Person, Synapse
from tests.platforms.matrix.conftest import Bot, post

pytestmark = pytest.mark.slow


@pytest.fixture
async def between(synapse: Synapse) -> AsyncIterator[Between]:
    async with Between(synapse.url) as proxy:
        yield proxy


async def dm(ann: Person, bot: Bot) -> str:
    room = await ann.makes_room(invite=[bot.id], is_direct=True)
    await bot.person.joins(room)
    return room


def kept(bot: Bot) -> Path:
    return bot.folder / ".matrix-main" / "sync.json"


async def test_A24_what_was_said_while_we_were_away_comes_once_and_in_order(bot: Bot, ann: Person) -> None:
    room, other = await dm(ann, bot), await dm(ann, bot)
    async with bot.connects() as run:
        await ann.says(room, "before")
        await run.hears("before")
        await run.settles(kept(bot))
    for number in range(120):  # more than one sync brings
        await ann.says(room, f"m{number}")
    await ann.says(other, "elsewhere")
    async with bot.connects() as run:
        await run.until(lambda: len(run.said) == 121)
        await run.settles(kept(bot))
        assert [s.text for s in run.said if s.origin.chat == room] == [f"m{n}" for n in range(120)]
    async with bot.connects() as run:
        await ann.says(room, "after")
        await run.hears("after")
        assert [said.text for said in run.said] == ["after"]


async def test_what_was_not_durable_comes_again(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        await ann.says(room, "zero")
        await run.hears("zero")
        await run.settles(kept(bot))
    reached: list[str] = []

    async def breaks(message: EdgeHeard) -> None:
        assert isinstance(message, MessageReceived)
        reached.append(message.text)
        if message.text == "two":
            raise EdgeError(ProblemKind.TRANSIENT, "not taken in time")

    async with bot.connects(breaks) as run:
        for text in ("one", "two", "three"):
            await ann.says(room, text)
        assert (await run.fails()).detail == "not taken in time"
    assert reached[:2] == ["one", "two"]
    async with bot.connects() as run:
        await run.hears("three")
        assert [said.text for said in run.said][-2:] == ["two", "three"]


async def test_without_a_token_only_what_came_after_the_last_message_is_new(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        last = await ann.says(room, "the last")
        heard = await run.hears("the last")
        await run.settles(kept(bot))
    for number in range(70):
        await ann.says(room, f"m{number}")
    kept(bot).unlink()
    bot.last_heard[room] = LastHeard(message_id=last, at=heard.at)
    async with bot.connects() as run:
        await run.hears("m69")
        # Servers keep the answer of a first sync for a while: what came before may come again, by its own id.
        texts = [s.text for s in run.said if s.origin.chat == room and s.message_id != last]
        assert texts == [f"m{n}" for n in range(70)]


async def test_a_first_connection_answers_nothing_old(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    await ann.says(room, "old")
    async with bot.connects() as run:
        await ann.says(room, "new")
        await run.hears("new")
        assert [said.text for said in run.said] == ["new"]


async def test_a_token_that_cannot_be_read_is_as_none(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    kept(bot).parent.mkdir(mode=0o700)
    kept(bot).write_text('{"next_ba')
    async with bot.connects() as run:
        await ann.says(room, "hi")
        await run.hears("hi")
        await run.until(lambda: json.loads(kept(bot).read_text())["next_batch"])
    assert kept(bot).stat().st_mode & 0o077 == 0
    assert kept(bot).parent.stat().st_mode & 0o077 == 0


async def test_A13_a_slow_room_holds_no_other(bot: Bot, ann: Person, between: Between) -> None:
    slow, quick = await dm(ann, bot), await dm(ann, bot)
    bot.url = between.url
    between.will("hang", "/media/download/")
    async with bot.connects() as run:
        picture = await ann.uploads(b"x", "text/plain")
        await ann.says(slow, "x.txt", msgtype="m.file", url=picture)
        async with asyncio.timeout(PATIENCE_S):
            await between.held.wait()
        await ann.says(slow, "later")
        await ann.says(quick, "hi")
        await run.hears("hi")
        await run.edge.say(post(quick, "hello"))
        assert [said.text for said in run.said] == ["hi"]  # the slow room keeps its order


async def test_an_answer_that_nobody_heard_is_unknown_and_posting_again_posts_nothing(
    bot: Bot, ann: Person, between: Between
) -> None:
    room = await dm(ann, bot)
    bot.url = between.url
    async with bot.connects() as run:
        # On a connection that was lost, the HTTP client itself puts once more.
        between.will("swallow", "/send/m.room.message", method="PUT", times=2)
        same = post(room, "once")
        with pytest.raises(EdgeError) as failed:
            await run.edge.say(same)
        assert failed.value.problem.kind is ProblemKind.UNKNOWN
        found = await run.edge.find(same)
        assert await run.edge.say(same) == found
        assert len(await ann.messages(room, bot.id)) == 1
        between.answers("/send/m.room.message", 502, {}, method="PUT")
        with pytest.raises(EdgeError) as failed:
            await run.edge.say(post(room, "perhaps"))
        assert failed.value.problem.kind is ProblemKind.UNKNOWN


async def test_A12_a_rate_limit_is_told_and_not_waited_out(bot: Bot, ann: Person, synapse: Synapse) -> None:
    admin = await synapse.person("admin1", admin=True)
    room = await dm(ann, bot)
    async with bot.connects() as run:
        path = f"/_synapse/admin/v1/users/{bot.id}/override_ratelimit"
        await admin.asks("POST", path, {"messages_per_second": 1, "burst_count": 1})
        with pytest.raises(EdgeError) as failed:  # noqa: PT012 one of them is too many
            for number in range(30):
                await run.edge.say(post(room, f"m{number}"))
        assert failed.value.problem.kind is ProblemKind.RATE_LIMITED
        assert 0 < (failed.value.problem.retry_after_s or 0) < 5


async def test_a_room_that_is_gone_or_shut_is_gone(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        await ann.asks("POST", f"/rooms/{room}/kick", {"user_id": bot.id})
        for gone in (room, "!nowhere:localhost", "#nothing:localhost", "@nobody:localhost"):
            with pytest.raises(EdgeError) as failed:
                await run.edge.say(post(gone))
            assert failed.value.problem.kind is ProblemKind.TARGET_GONE, gone


async def test_A01_a_token_that_is_no_good_needs_somebody(bot: Bot, ann: Person, between: Between) -> None:
    bot.url = between.url
    good = bot.person.token
    bot.person.token = "syt_wrong"
    with pytest.raises(EdgeError, match="give a new one") as failed:
        async with bot.connects():
            pass
    assert failed.value.problem.kind is ProblemKind.NEEDS_HUMAN
    assert "syt_wrong" not in str(failed.value)
    bot.person.token = good
    async with bot.connects() as run:
        await bot.person.asks("POST", "/logout", {})
        assert (await run.fails()).kind is ProblemKind.NEEDS_HUMAN


async def test_with_a_password_there_is_one_device_and_a_lost_login_is_made_anew(
    bot: Bot, ann: Person
) -> None:
    room = await dm(ann, bot)
    bot.options |= {"password": "pw", "user_id": bot.id}
    login = bot.folder / ".matrix-main" / "login.json"
    async with bot.connects() as run:
        await ann.says(room, "one")
        await run.hears("one")
    first = json.loads(login.read_text())
    assert login.stat().st_mode & 0o077 == 0
    async with bot.connects():
        assert json.loads(login.read_text()) == first
    stolen = Person(bot.url, bot.id, first["access_token"], first["device_id"])
    await stolen.asks("POST", "/logout", {})
    async with bot.connects() as run:
        await ann.says(room, "two")
        await run.hears("two")
        second = json.loads(login.read_text())
        assert second["device_id"] == first["device_id"]
        assert second["access_token"] != first["access_token"]
    bot.options["password"] = "no"
    login.unlink()
    with pytest.raises(EdgeError, match="does not take user and password") as failed:
        async with bot.connects():
            pass
    assert failed.value.problem.kind is ProblemKind.NEEDS_HUMAN


async def test_a_server_that_goes_away_ends_the_connection_and_it_can_be_made_again(
    ann: Person, bot: Bot, synapse: Synapse
) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        synapse.stop()
        assert (await run.fails()).kind is ProblemKind.TRANSIENT
    with pytest.raises(EdgeError) as failed:
        async with bot.connects():
            pass
    assert failed.value.problem.kind is ProblemKind.TRANSIENT
    await asyncio.to_thread(synapse.start)
    await ann.says(room, "are you back?")
    async with bot.connects() as run:
        await run.hears("are you back?")


async def test_A01_a_deaf_connection_fails_the_probe(bot: Bot, between: Between) -> None:
    bot.url = between.url
    async with bot.connects() as run:
        await run.edge.probe()
        between.will("cut", "/account/whoami", times=2)
        with pytest.raises(EdgeError) as failed:
            await run.edge.probe()
        assert failed.value.problem.kind is ProblemKind.TRANSIENT


async def test_A15_a_connection_can_be_cancelled_at_any_moment(bot: Bot, between: Between) -> None:
    bot.url = between.url
    for part in ("/account/whoami", "/media/config", "/sync"):
        between.held.clear()
        between.will("hang", part)
        task = asyncio.create_task(bot.edge().run(_never, lambda: None))
        async with asyncio.timeout(PATIENCE_S):
            await between.held.wait()
        task.cancel()
        async with asyncio.timeout(2):
            await asyncio.gather(task, return_exceptions=True)


async def _never(message: EdgeHeard) -> Receipt:
    raise AssertionError(message)
