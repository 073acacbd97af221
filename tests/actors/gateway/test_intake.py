"""What stands in the file when a process dies, and who is blamed for it."""

from pathlib import Path

from actors.gateway.intake import LONGEST_FILE, Intake
from messages.gateway import Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId, SessionKey
from tests.fakes.clock import ManualClock

KEY = SessionKey("agent:main:bridge:main:dm:ann")


def heard(name: str) -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(name),
        origin=Origin(platform="bridge", chat_type=ChatType.DM, chat="ann"),
        author=Author(id="ann"),
        text="hi",
        at=ManualClock().now(),
    )


def taken(intake: Intake, name: str) -> int:
    """Let a message begin, if it may; return its deaths, or -1."""
    if not intake.may_begin(KEY, heard(name)):
        return -1
    return intake.begin(KEY, MessageId(name))


def test_a_death_while_a_message_is_taken_is_counted_and_its_end_forgets_it(tmp_path: Path) -> None:
    path = tmp_path / "intake"
    first = Intake(path)
    assert taken(first, "m1") == 0
    assert taken(first, "m2") == 0
    first.done(KEY, MessageId("m2"))
    second = Intake(path)  # the first is never closed: its process was killed
    assert [taken(second, "m1"), taken(second, "m2")] == [1, 0]
    second.done(KEY, MessageId("m1"))
    assert taken(Intake(path), "m1") == 0


def test_W01_of_many_that_were_there_only_the_guilty_one_gets_to_three(tmp_path: Path) -> None:
    path = tmp_path / "intake"
    names = [*(f"good-{n}" for n in range(50)), "bad", *(f"good-{n}" for n in range(50, 100))]
    done, given_up, deaths = set[str](), list[str](), 0
    while len(done) + len(given_up) < len(names):
        deaths += _a_life(
            Intake(path), [n for n in names if n not in done and n not in given_up], done, given_up
        )
        assert deaths <= 3
    assert (given_up, len(done), deaths) == (["bad"], 100, 3)


def _a_life(intake: Intake, names: list[str], done: set[str], given_up: list[str]) -> int:
    """All come at once; each is taken when it may. Returns 1 when the bad one kills the process."""
    began = [name for name in names if intake.may_begin(key_for(name), heard(name))]
    deaths = {name: intake.begin(key_for(name), MessageId(name)) for name in began}
    while began:
        name = began.pop(0)
        if deaths[name] >= 3:
            given_up.append(name)
        elif name == "bad":
            return 1
        else:
            done.add(name)
        intake.done(key_for(name), MessageId(name))
        for _, released in intake.released():
            began.append(released.message_id)
            deaths[began[-1]] = intake.begin(key_for(began[-1]), released.message_id)
    return 0


def key_for(name: str) -> SessionKey:
    return SessionKey(f"{KEY}:{name}")


def test_a_suspect_waits_for_the_one_before_it_and_its_session_waits_with_it(tmp_path: Path) -> None:
    path = tmp_path / "intake"
    first = Intake(path)
    for name in ("a", "b"):
        first.begin(key_for(name), MessageId(name))
    first.begin(key_for("b"), MessageId("b3"))
    second = Intake(path)
    assert second.may_begin(key_for("a"), heard("a"))
    for name in ("b", "b", "b2", "b3", "b4"):
        assert not second.may_begin(key_for("b"), heard(name)), "nobody overtakes in a session"
    assert second.may_begin(key_for("new"), heard("new")), "other sessions go on"
    assert not second.waiting
    second.begin(key_for("a"), MessageId("a"))
    second.done(key_for("a"), MessageId("a"))
    assert [m.message_id for _, m in second.released()] == ["b", "b2"]
    assert second.may_begin(key_for("b"), heard("b")), "another copy of the one that is being taken"
    assert second.released() == ()
    second.begin(key_for("b"), MessageId("b"))
    second.done(key_for("b"), MessageId("b"))
    assert [m.message_id for _, m in second.released()] == ["b3", "b4"]


def test_a_stop_in_good_order_blames_nobody(tmp_path: Path) -> None:
    path = tmp_path / "intake"
    intake = Intake(path)
    taken(intake, "m1")
    intake.close()
    intake.done(KEY, MessageId("m1"))  # late news after the end
    assert taken(Intake(path), "m1") == 0


def test_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "intake"
    intake = Intake(path)
    taken(intake, "stays")
    for n in range(25_000):
        taken(intake, f"m{n}")
        intake.done(KEY, MessageId(f"m{n}"))
    assert path.stat().st_size <= LONGEST_FILE + 100
    assert taken(Intake(path), "stays") == 1


def test_a_file_of_nonsense_counts_nothing_and_a_folder_in_its_place_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "intake"
    path.write_text("nonsense\n+\n")
    assert taken(Intake(path), "m1") == 0
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "intake").mkdir()
    intake = Intake(tmp_path / "gone" / "intake")
    assert taken(intake, "m1") == 0
    intake.close()
