"""Where things are said."""

import pytest

from actors.gateway.targets import Local, account_name, platform_and_account, resolve
from messages.gateway import ChatType, Origin

ANN = Origin(platform="chat", chat_type=ChatType.DM, chat="ann", user="ann")
HOMES = {"chat": "lobby", "chat/work": "desk:7", "other": None}


def place(target: str) -> tuple[str, str, str | None, str | None]:
    found = resolve(target, ANN, HOMES)
    assert isinstance(found, Origin)
    return found.platform, found.account, found.chat, found.thread


def test_origin_is_where_the_conversation_is() -> None:
    assert resolve("origin", ANN, HOMES) == ANN
    assert resolve(" ", ANN, HOMES) == ANN


def test_local_is_nowhere() -> None:
    assert resolve("local", ANN, HOMES) == Local()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("chat", ("chat", "main", "lobby", None)),
        ("chat/work", ("chat", "work", "desk", "7")),
        ("chat:room", ("chat", "main", "room", None)),
        ("chat:room:42", ("chat", "main", "room", "42")),
        (" chat : room ", ("chat", "main", "room", None)),
        ("other:%21room%3Aexample.org:%25", ("other", "main", "!room:example.org", "%")),
    ],
)
def test_places(target: str, expected: tuple[str, str, str | None, str | None]) -> None:
    assert place(target) == expected


@pytest.mark.parametrize("target", ["nowhere", "nowhere:1", "chat:", "chat:a:b:c", "other", "Chat", ":x"])
def test_what_names_nothing_is_kept_with_a_reason(target: str) -> None:
    found = resolve(target, ANN, HOMES)
    assert isinstance(found, Local)
    assert found.why


def test_account_names() -> None:
    for name in ("chat", "chat/work"):
        assert account_name(*platform_and_account(name)) == name
