"""`callboard send`: through the running process, or without one."""

from pathlib import Path
from typing import Any

import pytest

from actors.console.cli.invocation import ExitCode
from actors.console.cli.send import Sending, send
from actors.gateway.edge import EdgeError
from actors.gateway.registry import Registry
from messages.delivery import Post, ProblemKind
from messages.ids import DeliveryId
from messages.sending import SendEnded
from tests.cli.house import noted, printed, running, typed
from tests.cli.test_platform_add import Options, pigeon, registry
from tests.fakes.desk import FakeDesk

SET = "platforms: {pigeon: {home: loft, options: {token: token-of-some-length}}, pigeon/off: {enabled: false}}\n"


async def test_a_running_process_posts_it(tmp_path: Path) -> None:
    desk = FakeDesk()
    file = tmp_path / "plot.png"
    file.write_bytes(b"png")
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await send(call, Sending("pigeon:7:8", "Hello", file, 5)) == ExitCode.OK
    assert printed(call) == "post-1\n"
    (asked,) = desk.sent
    assert (asked.target, asked.text, asked.file, asked.wait_s) == ("pigeon:7:8", "Hello", str(file), 5)
    assert asked.delivery_id


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"state": "owed"}, "stays owed"),
        ({"state": "failed", "why": "the chat is gone\x1b"}, "the chat is gone"),
    ],
)
async def test_what_was_not_delivered_is_a_failure(tmp_path: Path, end: dict[str, Any], words: str) -> None:
    desk = FakeDesk()
    desk.sends_end = SendEnded.model_validate({"delivery_id": DeliveryId("send-1"), **end})
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await send(call, Sending("pigeon:7", "Hello")) == ExitCode.FAILED
    assert words in noted(call)
    assert "\x1b" not in noted(call)


async def test_a_wrong_target_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.will_not_send = "'owl:1' names nothing that is connected here"
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await send(call, Sending("owl:1", "Hello")) == ExitCode.USAGE
    assert "names nothing" in noted(call)


async def test_a_file_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk())
    assert await send(call, Sending("pigeon:7", "", tmp_path / "none")) == ExitCode.USAGE


class Loft:
    """Takes posts without a connection."""

    def __init__(self, error: EdgeError | None = None) -> None:
        self.posts: list[Post] = []
        self._error = error

    async def post(self, options: Options, post: Post) -> str:
        assert options.token.get_secret_value() == "token-of-some-length"
        if self._error is not None:
            raise self._error
        self.posts.append(post)
        return f"post-{len(self.posts)}"

    def registry(self) -> Registry:
        return registry(pigeon(standalone=self.post))


async def test_without_a_process_it_is_posted_straight_away_cut_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(SET)
    file = tmp_path / "plot.png"
    file.write_bytes(b"png")
    loft = Loft()
    call = typed(tmp_path, FakeDesk())
    text = " ".join(["word"] * 50)
    assert await send(call, Sending("pigeon:7:8", text, file), loft.registry()) == ExitCode.OK
    assert printed(call) == "post-4\n"
    assert all(len(post.body.text) <= 100 for post in loft.posts)
    assert " ".join(" ".join(post.body.text for post in loft.posts).split()) == text
    assert {(post.place.chat, post.place.thread, post.of) for post in loft.posts} == {("7", "8", 4)}
    assert loft.posts[-1].body.file is not None
    assert len({post.key for post in loft.posts}) == 4


async def test_the_home_chat_is_where_a_platform_alone_goes(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(SET)
    loft = Loft()
    assert await send(typed(tmp_path, FakeDesk()), Sending("pigeon", "Hi"), loft.registry()) == ExitCode.OK
    assert loft.posts[0].place.chat == "loft"


@pytest.mark.parametrize(
    ("target", "words"),
    [("owl:1", "there is no platform 'owl'"), ("pigeon:", "is no target"), ("pigeon/off", "no home chat")],
)
async def test_without_a_process_a_wrong_target_is_said_too(tmp_path: Path, target: str, words: str) -> None:
    (tmp_path / "callboard.yaml").write_text(
        SET.replace("enabled: false", "options: {token: token-of-some-length}")
    )
    call = typed(tmp_path, FakeDesk())
    assert await send(call, Sending(target, "Hi"), Loft().registry()) == ExitCode.USAGE
    assert words in noted(call)


async def test_a_failure_is_said_with_its_kind(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(SET)
    loft = Loft(EdgeError(ProblemKind.TARGET_GONE, "no such chat"))
    call = typed(tmp_path, FakeDesk())
    assert await send(call, Sending("pigeon:7", "Hi"), loft.registry()) == ExitCode.FAILED
    assert "target_gone: no such chat" in noted(call)


async def test_a_platform_that_needs_a_connection_needs_a_process(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(SET)
    call = typed(tmp_path, FakeDesk())
    assert await send(call, Sending("pigeon:7", "Hi"), registry()) == ExitCode.NOT_RUNNING
    assert "callboard run" in noted(call)
