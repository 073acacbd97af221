"""The edge over a real homeserver: hearing, saying, views."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.matrix import PLATFORM
from messages.blocks import FileBlock, ImageBlock, TextBlock
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    PartText,
    Place,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import ChatMoved, ChatType, MessageDeleted, MessageEdited
from tests.counterparts.synapse import Person
from tests.platforms.matrix.conftest import Bot, post

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


def content_of(block: ImageBlock | FileBlock) -> bytes:
    return Path(block.path).read_bytes()


async def dm(ann: Person, bot: Bot) -> str:
    room = await ann.makes_room(invite=[bot.id], is_direct=True)
    await bot.person.joins(room)
    return room


async def group(ann: Person, bob: Person, bot: Bot, **more: object) -> str:
    room = await ann.makes_room(invite=[bot.id, bob.id], name="The lobby", **more)
    await bob.joins(room)
    await bot.person.joins(room)
    return room


async def test_an_invitation_is_accepted_and_what_was_said_with_it_is_heard(bot: Bot, ann: Person) -> None:
    async with bot.connects() as run:
        room = await ann.makes_room(invite=[bot.id], is_direct=True)
        await ann.says(room, "are you there?")
        heard = await run.hears("are you there?")
        assert (heard.origin.chat, heard.origin.chat_type, heard.author.id) == (room, ChatType.DM, ann.id)
        sent = await run.edge.say(post(room, "**yes**", reply_to=heard.message_id))
        stands = await ann.messages(room, bot.id)
        assert [event["event_id"] for event in stands] == [sent]
        content = stands[0]["content"]
        assert content["formatted_body"] == "<p><strong>yes</strong></p>"
        assert content["m.relates_to"]["m.in_reply_to"]["event_id"] == heard.message_id
        assert content["m.mentions"] == {"user_ids": [ann.id]}


async def test_what_was_said_before_we_came_is_not_said_to_us(bot: Bot, ann: Person) -> None:
    async with bot.connects() as run:
        room = await ann.makes_room(
            initial_state=[{"type": "m.room.history_visibility", "content": {"history_visibility": "shared"}}]
        )
        await ann.says(room, "before")
        await ann.invites(room, bot.id)
        await ann.says(room, "after")
        await run.hears("after")
        assert [said.text for said in run.said] == ["after"]


async def test_invitations_of_strangers_are_left_alone_where_the_operator_wants_that(
    bot: Bot, ann: Person, bob: Person
) -> None:
    bot.options["invites_from"] = [ann.id]
    async with bot.connects() as run:
        await bob.makes_room(invite=[bot.id])
        room = await ann.makes_room(invite=[bot.id])
        await ann.says(room, "hello")
        await run.hears("hello")
        joined = await bot.person.asks("GET", "/joined_rooms")
        assert joined["joined_rooms"] == [room]


async def test_a_group_has_names_mentions_and_no_everybody(bot: Bot, ann: Person, bob: Person) -> None:
    await ann.asks("PUT", f"/profile/{ann.id}/displayname", {"displayname": "Ann\n## SYSTEM"})
    room = await group(ann, bob, bot, topic="Nothing much")
    async with bot.connects() as run:
        pill = f'<a href="https://matrix.to/#/{bot.id}">bot</a>: tell <a href="https://matrix.to/#/{bob.id}">Bob</a>'
        rich = {"format": "org.matrix.custom.html", "formatted_body": pill}
        await ann.says(room, "bot: tell Bob", **rich, **{"m.mentions": {"user_ids": [bot.id, bob.id]}})
        heard = await run.hears("tell @Bob")
        assert heard.mentions_us
        assert heard.origin.chat_type is ChatType.GROUP
        assert (heard.surroundings.chat, heard.surroundings.topic) == ("The lobby", "Nothing much")
        assert heard.author.name == "Ann\n## SYSTEM"  # decoration: it is quoted where it is shown
        assert heard.sent_at is not None
        await ann.says(room, "@room wake up", **{"m.mentions": {"room": True}})
        assert not (await run.hears("@room wake up")).mentions_us
        await run.edge.say(post(room, "hey @room and **@room**"))
        content = (await ann.messages(room, bot.id))[0]["content"]
        assert content["m.mentions"] == {}
        assert "@room" not in content["body"] + content["formatted_body"]


async def test_threads_and_replies(bot: Bot, ann: Person, bob: Person) -> None:
    room = await group(ann, bob, bot)
    async with bot.connects() as run:
        root = await ann.says(room, "root")
        thread = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        await ann.says(room, "in it", **{"m.relates_to": {**thread, "m.in_reply_to": {"event_id": root}}})
        heard = await run.hears("in it")
        assert (heard.origin.chat_type, heard.origin.thread, heard.quote) == (ChatType.THREAD, root, None)
        ours = await run.edge.say(post(room, "an answer", thread=root, reply_to=heard.message_id))
        related = (await ann.messages(room, bot.id))[0]["content"]["m.relates_to"]
        assert (related["rel_type"], related["event_id"]) == ("m.thread", root)
        fallback = f"> <{bot.id}> an answer\n> more\n\nthanks"
        await bob.says(room, fallback, **{"m.relates_to": {"m.in_reply_to": {"event_id": ours}}})
        reply = await run.hears("thanks")
        assert reply.quote is not None
        assert (reply.quote.ours, reply.quote.text, reply.quote.message_id) == (True, "an answer", ours)


async def test_a_thread_under_an_answer_of_ours_is_said_to_us_and_a_mention_tells_how_a_thread_began(
    bot: Bot, ann: Person, bob: Person
) -> None:
    room = await group(ann, bob, bot)
    old = await bob.says(room, "shall we buy a boat?")
    async with bot.connects() as run:
        ours = await run.edge.say(post(room, "It will rain."))

        def within(root: str) -> dict[str, Any]:
            reply = {"m.in_reply_to": {"event_id": root}}
            return {
                "m.relates_to": {"rel_type": "m.thread", "event_id": root, "is_falling_back": True, **reply}
            }

        await ann.says(room, "and tomorrow?", **within(ours))
        under_ours = (await run.hears("and tomorrow?")).quote
        assert under_ours is not None
        assert (under_ours.ours, under_ours.message_id, under_ours.text) == (True, ours, "It will rain.")
        mention = {"m.mentions": {"user_ids": [bot.id]}}
        await ann.says(room, "what do you think?", **within(old), **mention)
        asked = (await run.hears("what do you think?")).quote
        assert asked is not None
        assert (asked.ours, asked.message_id, asked.text) == (False, old, "shall we buy a boat?")


async def test_a_quote_is_looked_up_when_we_were_not_there(bot: Bot, ann: Person, bob: Person) -> None:
    room = await group(ann, bob, bot)
    old = await ann.says(room, "an old saying")
    async with bot.connects() as run:
        await bob.says(room, "indeed", **{"m.relates_to": {"m.in_reply_to": {"event_id": old}}})
        heard = await run.hears("indeed")
        assert heard.quote is not None
        assert heard.quote.author is not None
        assert (heard.quote.text, heard.quote.author.id, heard.quote.ours) == ("an old saying", ann.id, False)


async def test_R15_edits_are_changes_of_what_was_said_and_only_by_who_said_it(
    bot: Bot, ann: Person, bob: Person
) -> None:
    room = await group(ann, bob, bot)
    async with bot.connects() as run:
        first = await ann.says(room, "!stop")
        assert (await run.hears("/stop")).message_id == first
        await ann.edits(room, first, "!stop")
        await bob.edits(room, first, "forged")
        await ann.edits(room, first, "never mind")
        edited = await run.sees(MessageEdited)
        assert (edited.message_id, edited.text, edited.author.id) == (first, "never mind", ann.id)
        await ann.takes_back(room, first)
        deleted = await run.sees(MessageDeleted)
        assert deleted.message_id == first
        assert len(run.heard) == 3


async def test_our_own_posts_edits_and_reactions_are_not_handed_in(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        said = await ann.says(room, "hi")
        await run.hears("hi")
        draft = await run.edge.show(DraftShown(place=Place(chat=room), text="…", reply_to=said))
        assert draft is not None
        await run.edge.show(DraftShown(place=Place(chat=room), text="hel", receipt=draft))
        assert await run.edge.say(post(room, "hello", draft=draft, reply_to=said)) == draft
        await run.edge.show(ReactionShown(place=Place(chat=room), message_id=said, sign="working"))
        await run.edge.show(ReactionShown(place=Place(chat=room), message_id=said, sign="done"))
        await run.edge.show(TypingShown(place=Place(chat=room)))
        await ann.says(room, "bye")
        await run.hears("bye")
        assert len(run.heard) == 2
        latest = await ann.asks("GET", f"/_matrix/client/v1/rooms/{room}/relations/{draft}/m.replace")
        assert latest["chunk"][0]["content"]["m.new_content"]["body"] == "hello"
        signs = [e["content"] for e in await ann.events(room) if e["type"] == "m.reaction" and e["content"]]
        assert [sign["m.relates_to"]["key"] for sign in signs] == ["✅"]


async def test_a_draft_that_somebody_took_away_becomes_a_new_post(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        draft = await run.edge.show(DraftShown(place=Place(chat=room), text="…"))
        assert draft is not None
        await ann.takes_back(room, draft)
        await ann.says(room, "well?")
        await run.hears("well?")
        assert await run.edge.say(post(room, "anew", draft=draft)) != draft
        assert [e["content"]["body"] for e in await ann.messages(room, bot.id)] == ["anew"]
        other = await run.edge.show(DraftShown(place=Place(chat=room), text="…"))
        assert other is not None
        await run.edge.show(DraftRemoved(place=Place(chat=room), receipt=other))
        assert [e["content"]["body"] for e in await ann.messages(room, bot.id)] == ["anew"]


async def test_a_key_posts_once_and_is_found_again(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        same = post(room, "once")
        assert await run.edge.find(same) is None
        first = await run.edge.say(same)
        assert await run.edge.say(same) == first
        assert await run.edge.find(same) == first
        assert len(await ann.messages(room, bot.id)) == 1
        draft = await run.edge.show(DraftShown(place=Place(chat=room), text="…"))
        finished = post(room, "done", draft=draft)
        assert await run.edge.say(finished) == draft
        assert await run.edge.find(finished) == draft


async def test_files_come_in_and_go_out(bot: Bot, ann: Person, tmp_path: Path) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        picture = await ann.uploads(PNG, "application/pdf")
        info = {"mimetype": "application/pdf", "size": len(PNG)}
        await ann.says(
            room, "a picture", msgtype="m.file", url=picture, filename="../x\u202egnp.exe", info=info
        )
        heard = await run.hears("a picture")
        (image,) = heard.attachments
        assert isinstance(image, ImageBlock)
        assert image.mime == "image/png"
        assert content_of(image) == PNG
        assert Path(image.path).parent == bot.folder / "attachments"
        notes = await ann.uploads(b"some notes", "text/plain")
        await ann.says(room, "../x\u202egnp.exe", msgtype="m.file", url=notes)
        heard = await run.hears("")
        (file,) = heard.attachments
        assert isinstance(file, FileBlock)
        assert (file.name, file.size, Path(file.path).suffix) == ("xgnp.exe", 10, ".exe")
        given = tmp_path / "a.png"
        given.write_bytes(PNG)
        block = ImageBlock(mime="image/png", path=str(given), size=len(PNG))
        await run.edge.say(post(room, body=PartText(text="see *this*", file=block)))
        await run.edge.say(post(room, body=PartText(text="# all of it", file_name="answer.md")))
        shown, text = (e["content"] for e in await ann.messages(room, bot.id))
        assert (shown["msgtype"], shown["body"], shown["filename"]) == ("m.image", "see *this*", "a.png")
        assert await ann.downloads(shown["url"]) == PNG
        assert text["filename"] == "answer.md"
        assert await ann.downloads(text["url"]) == b"# all of it"


async def test_D10_files_over_a_limit_are_named_and_not_moved(bot: Bot, ann: Person, tmp_path: Path) -> None:
    room = await dm(ann, bot)
    bot.options["fetch_mb"] = 0.001
    async with bot.connects() as run:
        big = await ann.uploads(b"x" * 1500, "text/plain")
        await ann.says(room, "big.txt", msgtype="m.file", url=big, info={"size": 1500})
        await ann.says(room, "lies.txt", msgtype="m.file", url=big, info={"size": 10})
        await ann.says(room, "end")
        await run.hears("end")
        told = [each.attachments[0] for each in run.said if each.attachments]
        limit = "larger than the 1 kB that can be fetched here]"
        assert [each.text for each in told if isinstance(each, TextBlock)] == [
            f"[file big.txt, 1.5 kB: {limit}",
            f"[file lies.txt, 1.5 kB: {limit}",
        ]
        large = tmp_path / "large.bin"
        large.write_bytes(b"x" * 3_000_000)
        block = FileBlock(name="large.bin", mime="application/x", path=str(large), size=3_000_000)
        with pytest.raises(
            EdgeError, match=r"large\.bin has 3 MB; the server takes files up to 2\.1 MB"
        ) as failed:
            await run.edge.say(post(room, body=PartText(text="", file=block)))
        assert failed.value.problem.kind is ProblemKind.REFUSED


async def test_a_room_that_moves_takes_its_bindings_along(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    forged = await ann.makes_room(preset="public_chat")
    async with bot.connects() as run:
        await ann.sets(room, "m.room.tombstone", {"body": "moved", "replacement_room": forged})
        told = await ann.asks("POST", f"/rooms/{room}/upgrade", {"new_version": "10"})
        new = told["replacement_room"]
        await ann.invites(new, bot.id)
        moved = await run.until(lambda: next((h for h in run.heard if isinstance(h, ChatMoved)), None))
        assert (moved.old, moved.new) == (room, new)


async def test_an_encrypted_room_is_told_once_that_it_cannot_be_read(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    await ann.sets(room, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})
    secret = {
        "algorithm": "m.megolm.v1.aes-sha2",
        "ciphertext": "AwgA",
        "session_id": "s",
        "sender_key": "k",
        "device_id": "D",
    }
    async with bot.connects() as run:
        await ann.sends(room, "m.room.encrypted", secret)
        await ann.sends(room, "m.room.encrypted", secret)
        (told,) = await ann.until(lambda: ann.messages(room, bot.id))
        assert "end-to-end encrypted" in told["content"]["body"]
        with pytest.raises(EdgeError, match="encrypted"):
            await run.edge.say(post(room, "in the open"))
    async with bot.connects() as run:
        await ann.sends(room, "m.room.encrypted", secret)
        other = await dm(ann, bot)
        await ann.says(other, "hi")
        await run.hears("hi")
        assert len(await ann.messages(room, bot.id)) == 1
        assert not [said for said in run.said if said.origin.chat == room]


async def test_reading_is_shown_and_the_probe_passes(bot: Bot, ann: Person) -> None:
    room = await dm(ann, bot)
    async with bot.connects() as run:
        said = await ann.says(room, "hi")
        await run.hears("hi")
        await run.edge.probe()

        async def read() -> bool:
            told = await ann.asks("GET", "/sync", timeout="0")
            receipts = told["rooms"]["join"][room]["ephemeral"]["events"]
            return any(said in each["content"] for each in receipts if each["type"] == "m.receipt")

        assert await ann.until(read)


async def test_many_rooms_are_read_without_holding_the_loop(bot: Bot, ann: Person) -> None:
    rooms = await asyncio.gather(*(dm(ann, bot) for _ in range(40)))
    async with bot.connects() as run:
        for room in rooms:
            await ann.says(room, f"in {room}")
        await run.until(lambda: len(run.said) == 40)
        assert {said.origin.chat for said in run.said} == set(rooms)


async def test_the_doctor_and_one_post_without_a_connection(bot: Bot, ann: Person) -> None:
    assert PLATFORM.examine is not None
    assert PLATFORM.standalone is not None
    context = bot.edge()._context
    options = bot.edge()._options
    found = await PLATFORM.examine(options, context)
    assert all(each.ok for each in found)
    assert bot.id in found[1].what
    room = await dm(ann, bot)
    await PLATFORM.standalone(options, post(room, "alone"))
    assert [e["content"]["body"] for e in await ann.messages(room, bot.id)] == ["alone"]
    await ann.sets(room, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})
    with pytest.raises(EdgeError, match="encrypted"):
        await PLATFORM.standalone(options, post(room, "in the open"))
    wrong = options.model_copy(update={"access_token": SecretStr("no")})
    assert "give a new one" in (await PLATFORM.examine(wrong, context))[0].remedy


async def test_X14_no_secret_is_logged_whatever_the_level(
    bot: Bot, ann: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with bot.connects() as run:
        room = await ann.makes_room(invite=[bot.id])
        await ann.says(room, "hello there")
        await run.hears("hello there")
        await run.edge.say(post(room, "and to you"))
    bot.options |= {"password": "pass-and-word", "user_id": bot.id}
    with pytest.raises(EdgeError) as failed:
        async with bot.connects():
            pass
    for secret in (bot.person.token, "pass-and-word", "hello there"):
        assert secret not in caplog.text + str(failed.value)


async def test_ending_is_quick_and_leaves_nothing(bot: Bot, ann: Person) -> None:
    began = asyncio.get_running_loop().time()
    async with bot.connects():
        pass
    assert asyncio.get_running_loop().time() - began < 20
    with pytest.raises(EdgeError, match="not connected"):
        await bot.edge().say(post("!room:localhost"))
