"""What people say in Slack, over a real socket, as the core hears it."""

import asyncio
import base64
import stat
from collections.abc import AsyncIterator

import pytest

from actors.gateway.platforms.slack.hearing import TRIES, TWIN_S
from actors.gateway.session_key import key_of
from messages.blocks import FileBlock, ImageBlock, TextBlock
from messages.delivery import ProblemKind
from messages.gateway import ChatMoved, ChatType, MessageDeleted, MessageEdited, MessageReceived
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.slack import SlackSimulator, channel_id, dm_id, user_id
from tests.platforms.simulators.slack_service import BOT_USER
from tests.platforms.slack.rig import Rig, eventually, post

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
async def sim() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        yield simulator


async def test_a_mention_in_a_channel_is_heard_with_all_that_is_known(sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="general", topic="All of us")
    async with Rig(sim) as rig:
        ts = await sim.says("general", "Ann", f"what says <@{user_id('Bob')}> &amp; <https://a.b|this>?")
        (said,) = await rig.messages(1)
    assert said.message_id == ts
    assert said.text.startswith("what says @")
    assert said.text.endswith("& this (https://a.b)?")
    assert said.mentions_us
    assert said.author.id == user_id("Ann")
    assert said.author.name == "Ann"
    assert not said.author.bot
    assert said.surroundings.server == "Sim & Co"
    assert said.surroundings.chat == "#general"
    assert said.surroundings.topic == "All of us"
    assert said.origin.server == "T0001"
    assert (said.origin.chat_type, said.origin.chat, said.origin.thread) == (
        ChatType.THREAD,
        channel_id("general"),
        ts,
    )
    assert said.sent_at is not None
    assert abs((said.at - said.sent_at).total_seconds()) < 60


async def test_R09_a_direct_message_is_one_session_and_a_root_shares_one_with_its_replies(
    sim: SlackSimulator,
) -> None:
    async with Rig(sim) as rig:
        await sim.says("ann", "Ann", "one", dm=True, ts="100.100000")
        await sim.says("ann", "Ann", "two", dm=True, ts="101.200000")
        await sim.says("general", "Ann", "root", ts="200.100000")
        await sim.says("general", "Bob", "reply", mention=False, ts="201.000000", thread="200.100000")
        await sim.says("general", "Bob", "root?", ts="202.000000", event={"thread_ts": "202.000000"})
        heard = await rig.messages(5)
    first = {key_of(each.origin) for each in heard if each.origin.chat_type is ChatType.DM}
    channel = [each for each in heard if each.origin.chat_type is not ChatType.DM]
    assert len(first) == 1
    assert {key_of(each.origin) for each in channel[:2]} == {key_of(channel[0].origin)}
    assert len(first | {key_of(each.origin) for each in channel[:2]}) == 2
    assert channel[0].quote is None
    assert channel[1].quote is not None
    assert channel[2].quote is None, "thread_ts == ts is a root"
    assert channel[2].origin.thread == "202.000000"


async def test_without_reply_in_thread_a_root_is_said_to_the_channel(sim: SlackSimulator) -> None:
    async with Rig(sim, reply_in_thread=False) as rig:
        root = await sim.says("general", "Ann", "root")
        await sim.says("general", "Ann", "reply", thread=root)
        heard = await rig.messages(2)
    assert [each.origin.chat_type for each in heard] == [ChatType.GROUP, ChatType.THREAD]
    assert heard[0].origin.thread is None


async def test_a_mention_is_heard_once_though_slack_tells_it_twice(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        for number in range(10):
            await sim.says("general", "Ann", f"n{number}")
        await sim.says("ann", "Ann", "last", dm=True)
        await rig.heard_so_many(11)
        await eventually(lambda: _all_acknowledged(sim))
        assert len(rig.heard) == 11


async def test_the_files_of_a_mention_are_heard_whichever_event_comes_first(sim: SlackSimulator) -> None:
    """Slack promises no order of the two, and tells of the files in one of them alone."""
    files = [{"name": "plan.txt", "mime": "text/plain", "content": _b64(b"the plan")}]
    async with Rig(sim) as rig:
        for number in range(3):
            await sim.misbehaves("mention_first", times=1)
            await sim.says("general", "Ann", f"look at this {number}", files=files)
        heard = await rig.messages(3)
        await eventually(lambda: _all_acknowledged(sim))
        assert len(rig.heard) == 3
    assert [m.text for m in heard] == [f"look at this {number}" for number in range(3)]
    for message in heard:
        (file,) = message.attachments
        assert isinstance(file, FileBlock)


async def test_a_mention_that_is_added_by_an_edit_is_heard(sim: SlackSimulator) -> None:
    """Slack tells of it as of any mention. What mentioned us before has the same id, and is known to its session."""
    async with Rig(sim) as rig:
        ts = await sim.says("general", "Ann", "@calboard, what is new?", mention=False)
        await rig.messages(1)
        await sim.edits("general", ts, f"<@{BOT_USER}> what is new?")
        heard = await rig.heard_so_many(3)
        await eventually(lambda: _all_acknowledged(sim))
        assert len(rig.heard) == 3
    edited, mention = heard[1:]
    assert isinstance(edited, MessageEdited)
    assert isinstance(mention, MessageReceived)
    assert (mention.message_id, mention.text, mention.mentions_us) == (ts, "what is new?", True)


async def test_an_app_that_is_told_of_mentions_alone_waits_once(sim: SlackSimulator) -> None:
    clock = ManualClock()
    await sim.misbehaves("mention_alone", times=3)
    async with Rig(sim, clock=clock) as rig:
        before = clock.waiting
        await sim.says("general", "Ann", "one")
        await _one_more_waits(clock, before)
        assert rig.heard == []
        await clock.advance(TWIN_S)
        await rig.heard_so_many(1)
        await sim.says("general", "Ann", "two")
        await sim.says("general", "Ann", "three")
        assert [m.text for m in await rig.messages(3)] == ["one", "two", "three"]


async def test_a_stop_with_a_mention_does_not_wait(sim: SlackSimulator) -> None:
    await sim.misbehaves("mention_alone", times=1)
    async with Rig(sim, clock=ManualClock()) as rig:
        await sim.says("general", "Ann", "!stop")
        assert [m.text for m in await rig.messages(1)] == ["/stop"]


async def test_what_was_acknowledged_and_not_taken_is_handed_in_again(sim: SlackSimulator) -> None:
    """Slack does not send it again: we have to."""
    async with Rig(sim) as rig:
        rig.hear_fails = 1
        await sim.commands("general", "Ann", "/callboard", "new")
        (said,) = await rig.messages(1)
        assert said.text == "/new"


async def test_what_is_never_taken_ends_the_connection_so_that_it_is_looked_for(sim: SlackSimulator) -> None:
    clock = ManualClock()
    async with Rig(sim, clock=clock) as rig:
        before = clock.waiting
        rig.hear_fails = 100
        await sim.commands("general", "Ann", "/callboard", "new")
        for attempt in range(TRIES):
            await _one_more_waits(clock, before)
            await clock.advance(2.0**attempt)
        problem = (await rig.ended()).problem
        assert (problem.kind, problem.detail) == (ProblemKind.TRANSIENT, "the journal is full")


async def _one_more_waits(clock: ManualClock, before: int) -> None:
    async def waits() -> bool:
        return clock.waiting > before

    await eventually(waits)


async def _all_acknowledged(sim: SlackSimulator) -> bool:
    return bool((await sim.state())["unacknowledged"] == 0)


async def test_what_comes_twice_is_heard_once(sim: SlackSimulator) -> None:
    await sim.misbehaves("duplicates", times=6)
    async with Rig(sim) as rig:
        for number in range(3):
            await sim.says("general", "Ann", f"n{number}")
        await rig.heard_so_many(3)
        await eventually(lambda: _all_acknowledged(sim))
        assert [m.text for m in rig.heard if isinstance(m, MessageReceived)] == ["n0", "n1", "n2"]


async def test_a_message_that_was_not_taken_is_not_acknowledged_and_comes_again(sim: SlackSimulator) -> None:
    await sim.misbehaves("ack_s", seconds=0.2)
    async with Rig(sim) as rig:
        rig.hear_fails = 2
        await sim.says("general", "Ann", "important", mention=False)
        (said,) = await rig.messages(1)
        assert said.text == "important"
        assert (await sim.state())["resent"] >= 1


async def test_a_slow_journal_does_not_make_slack_send_again(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        release = asyncio.Event()
        rig.on_hear = lambda _: release.wait()  # type: ignore[assignment,return-value]
        await sim.says("general", "Ann", "hello", mention=False)
        await rig.heard_so_many(1)
        await eventually(lambda: _all_acknowledged(sim))
        release.set()
        assert (await sim.state())["resent"] == 0


async def test_our_own_messages_and_edits_are_not_heard(sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="general")
    async with Rig(sim) as rig:
        receipt = await rig.edge.say(post("hello", channel_id("general")))
        await rig.edge.say(post("hello again", channel_id("general"), draft=receipt))
        await sim.says("general", "Ann", "hi", mention=False)
        (said,) = await rig.messages(1)
        assert said.text == "hi"


async def test_edits_and_deletions_of_people(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        ts = await sim.says("general", "Ann", "teh answer", mention=False)
        await sim.edits("general", ts)
        await sim.edits("general", ts, "the answer")
        await sim.deletes("general", ts)
        said, edited, deleted = await rig.heard_so_many(3)
    assert isinstance(said, MessageReceived)
    assert isinstance(edited, MessageEdited)
    assert isinstance(deleted, MessageDeleted)
    assert edited.text == "the answer"
    assert edited.message_id == deleted.message_id == said.message_id == ts
    assert edited.origin == said.origin
    assert key_of(deleted.origin) == key_of(said.origin)


async def test_bots_and_joins(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        channel = (await sim.tell("channel", chat="general"))["id"]
        joined = {"type": "message", "subtype": "channel_join", "user": "U123", "text": "<@U123> joined"}
        await sim.tell("event", event={**joined, "ts": "5.000001", "channel": channel})
        bot = {
            "type": "message",
            "subtype": "bot_message",
            "bot_id": "B77",
            "username": "Deploy\nbot",
            "text": "done",
        }
        await sim.tell(
            "event", event={**bot, "ts": "6.000001", "channel": channel, "channel_type": "channel"}
        )
        (said,) = await rig.messages(1)
    assert said.author.bot
    assert said.author.id == "B77"
    assert said.author.name == "Deploy bot"


async def test_a_typed_alias_is_a_command_and_other_words_are_not(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        await sim.says("ann", "Ann", "!stop", dm=True)
        await sim.says("ann", "Ann", "!important news", dm=True)
        await sim.says("general", "Ann", "!queue more &lt;things&gt;")
        await sim.says("general", "Ann", "/stop")
        texts = [m.text for m in await rig.messages(4)]
    assert sorted(texts) == sorted(["/stop", "!important news", "/queue more <things>", "/stop"])


async def test_native_commands_are_acknowledged_before_anything_is_waited_for(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        release = asyncio.Event()
        rig.on_hear = lambda _: release.wait()  # type: ignore[assignment,return-value]
        one = await sim.commands("general", "Ann", "/callboard", "whoami")
        two = await sim.commands("general", "Ann", "/stop")
        three = await sim.commands("ann", "Ann", "/callboard", "what is up?", dm=True)
        four = await sim.commands("general", "Ann", "/callboard")
        heard = {m.message_id: m for m in await rig.messages(4)}
        await eventually(lambda: _all_acknowledged(sim))
        release.set()
    assert (heard[one].text, heard[one].via) == ("/whoami", "command")  # type: ignore[index]
    assert (heard[two].text, heard[two].via) == ("/stop", "command")  # type: ignore[index]
    assert (heard[three].text, heard[three].via) == ("what is up?", "message")  # type: ignore[index]
    assert heard[three].mentions_us  # type: ignore[index]
    assert heard[four].text == "/help"  # type: ignore[index]
    assert heard[one].origin.chat_type is ChatType.GROUP  # type: ignore[index]
    assert heard[three].origin.chat_type is ChatType.DM  # type: ignore[index]


async def test_attachments_are_fetched_into_our_folder(sim: SlackSimulator) -> None:
    files = [
        {"name": "../../evil\u202egnp.PNG", "mime": "image/png", "content": _b64(PNG)},
        {"name": "notes.txt", "mime": "text/plain", "content": _b64(b"some notes")},
    ]
    async with Rig(sim) as rig:
        await sim.says("general", "Ann", "look", files=files)
        (said,) = await rig.messages(1)
        image, notes = said.attachments
        assert isinstance(image, ImageBlock)
        assert isinstance(notes, FileBlock)
        assert image.mime == "image/png"
        assert (notes.name, notes.mime, notes.size) == ("notes.txt", "text/plain", 10)
        stored = sorted(rig.files.iterdir())
        assert {str(path) for path in stored} == {image.path, notes.path}
        assert stat.S_IMODE(rig.files.stat().st_mode) == 0o700
        assert "evil" not in image.path


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_what_cannot_be_fetched_is_said_and_the_message_goes_on(sim: SlackSimulator) -> None:
    big = {"name": "big.zip", "content": _b64(b"x"), "size": 40_000_000}
    lying = {"name": "liar.bin", "content": _b64(b"y" * 600_000), "size": 10}
    gone = {"name": "gone.txt", "mode": "tombstone", "content": ""}
    async with Rig(sim, fetch_mb=0.5) as rig:
        await sim.says("general", "Ann", "look", files=[big, lying, gone])
        (said,) = await rig.messages(1)
        assert said.attachments[0] == TextBlock(
            text="[file big.zip, 40 MB: larger than the 500 kB that can be fetched here]"
        )
        assert isinstance(said.attachments[1], TextBlock)
        assert "larger than the 500 kB" in said.attachments[1].text
        assert isinstance(said.attachments[2], TextBlock)
        assert "deleted" in said.attachments[2].text
        assert not list(rig.files.iterdir()), "nothing half-fetched is left"


async def test_a_file_of_a_shared_channel_is_asked_for(sim: SlackSimulator) -> None:
    file = {"name": "a.txt", "mime": "text/plain", "content": _b64(b"abc"), "file_access": "check_file_info"}
    async with Rig(sim) as rig:
        await sim.says("general", "Ann", "", mention=False, files=[file])
        (said,) = await rig.messages(1)
    assert isinstance(said.attachments[0], FileBlock)
    assert said.attachments[0].name == "a.txt"


async def test_without_the_scope_for_files_the_page_of_sign_in_is_not_taken_for_one(
    sim: SlackSimulator,
) -> None:
    await sim.misbehaves("scopes", without=["files:read"])
    async with Rig(sim) as rig:
        await sim.says("general", "Ann", "look", files=[{"name": "a.bin", "content": _b64(b"abc")}])
        (said,) = await rig.messages(1)
        assert isinstance(said.attachments[0], TextBlock)
        assert "files:read" in said.attachments[0].text


async def test_names_are_not_waited_for_long_and_messages_keep_their_order(sim: SlackSimulator) -> None:
    await sim.misbehaves("slow", method="users.info", times=1, seconds=30)
    async with Rig(sim) as rig:
        await sim.says("general", "Ann", "one", mention=False)
        await eventually(lambda: _asked(sim, "users.info"))
        await sim.says("general", "Bob", "two", mention=False)
        await sim.says("general", "Bob", "three", mention=False)
        heard = await rig.messages(3)
    assert [m.text for m in heard] == ["one", "two", "three"]
    assert heard[0].author.name == ""


async def _asked(sim: SlackSimulator, method: str) -> bool:
    return bool(await sim.requests(method))


async def test_a_person_is_looked_up_once(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        for number in range(20):
            await sim.says("general", "Ann", f"n{number}", mention=False)
        await rig.heard_so_many(20)
        assert len(await sim.requests("users.info")) == 1
        assert len(await sim.requests("conversations.info")) == 1


async def test_a_channel_with_another_id_has_moved(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        event = {"type": "channel_id_changed", "old_channel_id": "G1AA", "new_channel_id": "C1AA"}
        await sim.tell("event", event=event)
        (moved,) = await rig.heard_so_many(1)
    assert isinstance(moved, ChatMoved)
    assert (moved.old, moved.new) == ("G1AA", "C1AA")


async def test_who_is_asked_into_a_thread_hears_how_it_began(sim: SlackSimulator) -> None:
    root = await sim.says("general", "Ann", "shall we buy a boat?", mention=False)
    async with Rig(sim) as rig:
        await sim.says("general", "Bob", "what do you think?", thread=root)
        (said,) = await rig.messages(1)
    assert said.quote is not None
    assert said.quote.text == "shall we buy a boat?"
    assert said.quote.author is not None
    assert said.quote.author.id == user_id("Ann")
    assert not said.quote.ours


async def test_a_reply_to_our_post_is_a_quote_of_ours(sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="general")
    async with Rig(sim) as rig:
        ours = await rig.edge.say(post("good morning", channel_id("general")))
        await sim.says("general", "Bob", "good morning!", mention=False, thread=ours)
        (said,) = await rig.messages(1)
    assert said.quote is not None
    assert said.quote.ours
    assert said.quote.text == "good morning", "the conversation in the thread is new, and does not know it"
    assert said.origin.thread == ours


async def test_a_direct_message_with_a_thread_stays_the_direct_message(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        first = await sim.says("ann", "Ann", "hello", dm=True)
        await sim.says("ann", "Ann", "more", dm=True, thread=first)
        heard = await rig.messages(2)
    assert heard[0].origin.chat == dm_id("ann")
    assert key_of(heard[0].origin) == key_of(heard[1].origin)
    assert heard[1].origin.thread == first, "the answer goes where it was asked"
