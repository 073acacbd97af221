"""`callboard dead-letters`, with the running process and straight from the database."""

import json
from datetime import UTC, datetime
from pathlib import Path

from actors.clock import WallClock
from actors.console.cli.dead_letters import decide_letter, list_letters, show_letter
from actors.console.cli.invocation import ExitCode
from actors.gateway.outbox import key_of_part
from actors.session import facts as f
from messages import delivery as d
from messages.dead_letters import DeadLetter
from messages.gateway import Author, ChatType, MessageReceived, Origin
from messages.ids import DeliveryId, MessageId, SessionId, SessionKey, StreamId
from messages.settings import StoreSettings
from store.dead_letters import NO_MESSAGE, dead_letters, open_letters, owed_again
from store.store import Store
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANN = Origin(platform="bridge", chat_type=ChatType.DM, chat="ann")
KEY = SessionKey("agent:main:bridge:main:dm:ann")
SECRET = "a-password-that-nobody-sees"


def heard(name: str, text: str) -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(name), origin=ANN, author=Author(id="ann", name="Ann"), text=text, at=AT
    )


def letter(number: int, text: str = "do it", *, kept: bool = True) -> DeadLetter:
    return DeadLetter(
        id=number,
        session_key=KEY,
        seq=number,
        message_id=MessageId(f"m{number}"),
        origin=ANN,
        author="Ann",
        text=text,
        error="the process died 3 times",
        at=AT,
        obstacle="" if kept else NO_MESSAGE,
        message=heard(f"m{number}", text) if kept else None,
    )


def reply(number: int, **more: object) -> DeadLetter:
    about: dict[str, object] = {
        "kind": "reply",
        "session_key": KEY,
        "message_id": None,
        "origin": None,
        "message": None,
        "author": "",
        "text": "one\n\ntwo",
        "error": "refused: no links here",
        "place": "bridge:ann",
        "delivery_id": DeliveryId(f"d{number}"),
        "parts": 2,
        "posted": 1,
    }
    return letter(number).model_copy(update=about | more)


async def test_open_letters_are_listed_and_the_others_with_all(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.letters = {
        7: letter(7),
        9: letter(9, "\x1b[31mred\n\nlines").model_copy(update={"state": "dropped"}),
    }
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await list_letters(call, everything=False, as_json=False) == ExitCode.OK
        everything = typed(tmp_path, desk)
        await list_letters(everything, everything=True, as_json=False)
        as_json = typed(tmp_path, desk)
        await list_letters(as_json, everything=True, as_json=True)
    assert "7" in printed(call)
    assert "do it" in printed(call)
    assert "red" not in printed(call)
    assert "\x1b" not in printed(everything), "what people write never controls the terminal"
    assert len(printed(everything).strip().splitlines()) == 2
    assert [entry["id"] for entry in json.loads(printed(as_json))] == [7, 9]


async def test_one_is_shown_whole_and_an_unknown_number_is_said(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.letters = {7: letter(7), 8: letter(8, "", kept=False)}
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await show_letter(call, 7, as_json=False) == ExitCode.OK
        bare = typed(tmp_path, desk)
        assert await show_letter(bare, 8, as_json=False) == ExitCode.OK
        unknown = typed(tmp_path, desk)
        assert await show_letter(unknown, 1, as_json=False) == ExitCode.FAILED
    assert all(word in printed(call) for word in ("m7", "Ann", KEY, "the process died 3 times", "do it"))
    assert "not possible" in printed(bare)
    assert "There is no dead letter 1" in noted(unknown)


async def test_retry_and_drop_need_the_running_process_and_happen_once(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.letters = {7: letter(7), 8: letter(8)}
    nobody = typed(tmp_path, desk)
    assert await decide_letter(nobody, 7, "retry") == ExitCode.NOT_RUNNING
    assert "callboard run" in noted(nobody)
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await decide_letter(call, 7, "retry") == ExitCode.OK
        assert await decide_letter(call, 8, "drop") == ExitCode.OK
        again = typed(tmp_path, desk)
        assert await decide_letter(again, 8, "drop") == ExitCode.FAILED
    assert "m7~7" in printed(call)
    assert (desk.letters[7].state, desk.letters[8].state) == ("retried", "dropped")
    assert desk.letters[8].closed_by == "the command line"
    assert "no open dead letter" in noted(again)


async def test_a_reply_is_shown_with_its_place_and_what_of_it_was_posted(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.letters = {7: reply(7, doubtful=True), 8: reply(8, obstacle="There is no platform 'bridge'.")}
    async with running(tmp_path, desk):
        listed = typed(tmp_path, desk)
        await list_letters(listed, everything=False, as_json=False)
        shown, hindered = typed(tmp_path, desk), typed(tmp_path, desk)
        await show_letter(shown, 7, as_json=False)
        await show_letter(hindered, 8, as_json=False)
        retried = typed(tmp_path, desk)
        assert await decide_letter(retried, 7, "retry") == ExitCode.OK
    line = printed(listed).splitlines()[0]
    assert all(word in line for word in ("reply", "bridge:ann", "one two", "no links here"))
    assert all(word in printed(shown) for word in ("d7", "bridge:ann", "1 of 2", "nobody knows of part 2"))
    assert printed(shown).endswith("one\n\ntwo\n")
    assert "not possible: There is no platform 'bridge'." in printed(hindered)
    assert printed(retried) == "7 is delivered again to bridge:ann, as d7~7.\n"


async def test_replies_too_come_from_the_file_masked(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    await store.start()

    def given_up(name: str, key: SessionKey | None, posted: int = 0) -> d.DeliveryFailed:
        return d.DeliveryFailed(
            delivery_id=DeliveryId(name),
            session_key=key,
            why="refused: no",
            posted=posted,
            parts=2,
            attempts=2,
            taken_at=AT,
            at=AT,
        )

    text = f"the key is {SECRET}"
    taken = d.DeliveryTaken(
        delivery_id=DeliveryId("d1"),
        session_key=KEY,
        place=d.Place(chat="a:b", thread="t"),
        parts=(d.PartText(text="first"), d.PartText(text=text)),
        at=AT,
    )
    facts = (
        taken,
        d.PartTried(delivery_id=DeliveryId("d1"), part=2, attempt=1, at=AT),
        d.PartUnclear(delivery_id=DeliveryId("d1"), part=2, attempt=1, why="no answer", at=AT),
        given_up("d1", KEY, posted=1),
        given_up("d1/undelivered", None),
        given_up("desk:bridge/1", SessionKey("desk:bridge")),
        given_up("d2", KEY),
        d.DeliveryLetterClosed(letter=7, delivery_id=DeliveryId("d2"), how="dropped", by="ops", at=AT),
    )
    await store.journal.append(StreamId("outbox:bridge:spare"), 0, facts)
    assert await open_letters(store.select) == 1
    _, first = await dead_letters(store.select)
    again = await owed_again(store.select, first)
    await store.close()
    assert again is not None
    assert [part.text for part in again.parts] == [text]
    assert (again.delivery_id, again.place) == (f"d1~{first.id}", taken.place)
    assert again.doubt == d.Doubt(key=key_of_part(taken.delivery_id, 2), since=AT)
    call = typed(tmp_path, FakeDesk(), env={"SOME_API_KEY": SECRET})
    assert await list_letters(call, everything=True, as_json=True) == ExitCode.OK
    lost, kept = json.loads(printed(call))
    assert (lost["state"], lost["closed_by"], lost["text"]) == ("dropped", "ops", "")
    assert "not in the journal" in lost["obstacle"]
    assert (kept["kind"], kept["place"], kept["state"]) == ("reply", "bridge/spare:a%3Ab:t", "open")
    assert (kept["parts"], kept["posted"], kept["doubtful"]) == (2, 1, True)
    assert kept["text"].startswith("first\n\nthe key is ")
    assert SECRET not in printed(call)


async def test_without_a_process_the_list_comes_from_the_file(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    await store.start()
    taken = f.MessageAccepted(
        message_id=MessageId("m1"),
        session_id=SessionId("s1"),
        origin=ANN,
        author=Author(id="ann", name="Ann"),
        text="taken, and deadly",
        at=AT,
    )
    facts = (
        taken,
        f.MessageGivenUp(message_id=MessageId("m1"), error="died", letter="", at=AT),
        f.MessageGivenUp(
            message_id=MessageId("m2"),
            error="twice",
            letter=heard("m2", "never taken").model_dump_json(),
            at=AT,
        ),
        f.MessageGivenUp(message_id=None, error="our own", letter="", at=AT),
        f.DeadLetterClosed(letter=3, how="dropped", by="ops", at=AT),
    )
    await store.journal.append(StreamId(f"session:{KEY}"), 0, facts)
    assert await open_letters(store.select) == 2
    own, second, first = await dead_letters(store.select)
    await store.close()
    assert (own.message_id, own.message, own.state) == (None, None, "open")
    assert (second.text, second.state, second.closed_by) == ("never taken", "dropped", "ops")
    assert (first.text, first.author, first.state) == ("taken, and deadly", "Ann", "open")
    call = typed(tmp_path, FakeDesk())
    assert await list_letters(call, everything=True, as_json=False) == ExitCode.OK
    assert "taken, and deadly" in printed(call)
    nothing = typed(tmp_path / "nowhere", FakeDesk())
    assert await list_letters(nothing, everything=False, as_json=False) == ExitCode.OK
    assert "No open dead letters" in noted(nothing)
