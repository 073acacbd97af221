"""`callboard platform add`: what is asked, checked, written and said."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from actors.clock import WallClock
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.platform_add import Adding, add_platform
from actors.env_file import FILE, read_env
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.pairing import ClaimFile, matches
from actors.gateway.registry import Finding, Limits, PlatformEntry, Question, Registry
from actors.settings_file import SettingsError, read_settings
from messages.delivery import ProblemKind
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk

TOKEN = "token-0123456789-abcdef"


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr
    server: str = "https://chat.example"
    retries: int = 3
    chats: tuple[str, ...] = ()


Examine = Callable[[Options, EdgeContext], tuple[Finding, ...]]


def all_well(options: Options, _: EdgeContext) -> tuple[Finding, ...]:
    return (Finding(ok=True, what=f"logged in at {options.server}"),)


def pigeon(examine: Examine = all_well, **more: Any) -> PlatformEntry:
    async def look(options: Options, context: EdgeContext) -> tuple[Finding, ...]:
        return examine(options, context)

    def no_edge(*_: object) -> Any:
        raise AssertionError("nothing is connected while it is added")

    fields: dict[str, Any] = {
        "name": "pigeon",
        "title": "Carrier pigeons",
        "factory": no_edge,
        "config": Options,
        "limits": Limits(100),
        "first_steps": "Buy a pigeon at example.org.",
        "questions": (
            Question("token", "Ring number", where="on the left leg", variable="PIGEON_TOKEN"),
            Question("server", "Loft", optional=True, default="https://chat.example"),
        ),
        "examine": look,
    }
    return PlatformEntry(**{**fields, **more})


def registry(entry: PlatformEntry | None = None) -> Registry:
    found = Registry()
    found.register(entry or pigeon())
    return found


async def adds(call: Invocation, adding: Adding, entry: PlatformEntry | None = None) -> int:
    return await add_platform(call, adding, registry(entry))


def settings_of(home: Path, env: dict[str, str] | None = None) -> Any:
    given = {**read_env(home / FILE), **(env or {})}
    return read_settings(home / "callboard.yaml", given).settings


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def test_from_a_token_to_everything_that_is_needed(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n")
    assert await adds(call, Adding("pigeon")) == ExitCode.OK
    text = printed(call)
    assert text.startswith("Buy a pigeon at example.org.")
    assert "on the left leg" in text
    assert "ok    logged in at https://chat.example" in text
    assert "callboard run" in text
    assert TOKEN not in text + noted(call)
    kept = (tmp_path / "callboard.yaml").read_text()
    assert TOKEN not in kept
    assert "token: ${PIGEON_TOKEN}" in kept
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert settings_of(tmp_path).platforms["pigeon"].plain_options()["token"] == TOKEN


async def test_the_owner_is_told_a_code_that_is_good_for_this_account(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n")
    await adds(call, Adding("pigeon"))
    code = re.search(r"/claim (\S+)", printed(call))
    assert code is not None
    (claim,) = ClaimFile(tmp_path).take()
    assert claim.account == "pigeon"
    assert matches(code[1], claim.salt, claim.digest)
    assert claim.expires_at > WallClock().now()


async def test_nothing_is_asked_with_yes_and_the_token_comes_through_the_input(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n")
    adding = Adding("pigeon", ("retries=5", 'chats=["a", "b"]'), token_stdin=True, yes=True)
    assert await adds(call, adding) == ExitCode.OK
    options = settings_of(tmp_path).platforms["pigeon"].plain_options()
    assert options == {
        "token": TOKEN,
        "server": "https://chat.example",
        "retries": 5,
        "chats": ["a", "b"],
    }


async def test_what_looks_like_a_number_stays_text_where_text_is_wanted(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n")
    adding = Adding("pigeon", ("retries=7", "server=1234567890123"), token_stdin=True, yes=True)
    assert await adds(call, adding) == ExitCode.OK
    options = settings_of(tmp_path).platforms["pigeon"].plain_options()
    assert (options["retries"], options["server"]) == (7, "1234567890123")


async def test_a_secret_of_the_environment_is_used_and_not_copied(tmp_path: Path) -> None:
    env = {"PIGEON_TOKEN": TOKEN}
    call = typed(tmp_path, FakeDesk(), env=env)
    assert await adds(call, Adding("pigeon", yes=True)) == ExitCode.OK
    assert "taken from PIGEON_TOKEN of the environment" in noted(call)
    assert not (tmp_path / FILE).exists()
    assert settings_of(tmp_path, env).platforms["pigeon"].plain_options()["token"] == TOKEN


async def test_a_second_account_has_its_own_variable(tmp_path: Path) -> None:
    await adds(typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n"), Adding("pigeon"))
    env = read_env(tmp_path / FILE)
    call = typed(tmp_path, FakeDesk(), stdin="token-of-the-second\n\n", env=env)
    assert await adds(call, Adding("pigeon/at-work")) == ExitCode.OK
    assert read_env(tmp_path / FILE) == {
        "PIGEON_TOKEN": TOKEN,
        "PIGEON_TOKEN_AT_WORK": "token-of-the-second",
    }
    assert list(settings_of(tmp_path).platforms) == ["pigeon", "pigeon/at-work"]


async def test_what_is_in_the_file_stays_and_a_copy_of_it_too(tmp_path: Path) -> None:
    before = "# mine\nserver:\n  port: 0  # any\nplatforms:\n  other:\n    enabled: false  # later\n"
    path = tmp_path / "callboard.yaml"
    path.write_text(before)
    path.chmod(0o640)
    assert await adds(typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n"), Adding("pigeon")) == ExitCode.OK
    after = path.read_text()
    assert after.startswith(before)
    assert path.stat().st_mode & 0o777 == 0o640
    copy, *others = [name for name in names(tmp_path) if name not in {FILE, "callboard.yaml", "claims.json"}]
    assert re.fullmatch(r"callboard\.yaml\.\d{8}T\d{6}\.bak", copy)
    assert (tmp_path / copy).read_text() == before
    assert others == []


@pytest.mark.parametrize("answer", ["n", "", "no"])
async def test_an_account_that_is_set_is_not_replaced_by_mistake(tmp_path: Path, answer: str) -> None:
    await adds(typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n"), Adding("pigeon"))
    before = (tmp_path / "callboard.yaml").read_text()
    env = read_env(tmp_path / FILE)
    call = typed(tmp_path, FakeDesk(), stdin=f"{answer}\n", env=env)
    assert await adds(call, Adding("pigeon")) == ExitCode.FAILED
    assert await adds(typed(tmp_path, FakeDesk(), env=env), Adding("pigeon", yes=True)) == ExitCode.FAILED
    assert (tmp_path / "callboard.yaml").read_text() == before


async def test_an_account_gets_a_new_token_and_keeps_its_access(tmp_path: Path) -> None:
    await adds(typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n"), Adding("pigeon"))
    path = tmp_path / "callboard.yaml"
    path.write_text(path.read_text() + "    access: {users: ['1']}  # Ann\n")
    call = typed(tmp_path, FakeDesk(), stdin="n\na-new-token-of-it\n\n", env=read_env(tmp_path / FILE))
    assert await adds(call, Adding("pigeon", replace=True)) == ExitCode.OK
    found = settings_of(tmp_path).platforms["pigeon"]
    assert found.plain_options()["token"] == "a-new-token-of-it"
    assert found.access.users == ("1",)
    assert "# Ann" in path.read_text()


def broken(options: Options, _: EdgeContext) -> tuple[Finding, ...]:
    token = options.token.get_secret_value()
    return (
        Finding(ok=True, what="the service answers"),
        Finding(ok=False, what=f"the token {token} is not known\x1b[31m", remedy="Make a new one."),
    )


def unreachable(_: Options, __: EdgeContext) -> tuple[Finding, ...]:
    raise EdgeError(ProblemKind.TRANSIENT, "the service cannot be reached")


def mistaken(_: Options, __: EdgeContext) -> tuple[Finding, ...]:
    raise RuntimeError("not my day")


@pytest.mark.parametrize(
    ("examine", "words"),
    [
        (broken, "Make a new one."),
        (unreachable, "cannot be reached"),
        (mistaken, "the check itself failed: RuntimeError"),
    ],
)
async def test_nothing_is_written_when_the_check_fails(tmp_path: Path, examine: Examine, words: str) -> None:
    for stdin, yes in ((f"{TOKEN}\n\nn\n", False), (f"{TOKEN}\n", True)):
        call = typed(tmp_path, FakeDesk(), stdin=stdin)
        adding = Adding("pigeon", token_stdin=yes, yes=yes)
        assert await adds(call, adding, pigeon(examine)) == ExitCode.FAILED
        assert words in printed(call)
        assert TOKEN not in printed(call) + noted(call)
        assert "\x1b" not in printed(call)
        assert names(tmp_path) == []


async def test_it_can_be_kept_in_spite_of_the_check_or_without_one(tmp_path: Path) -> None:
    call = typed(tmp_path / "a", FakeDesk(), stdin=f"{TOKEN}\n\ny\n")
    assert await adds(call, Adding("pigeon"), pigeon(broken)) == ExitCode.OK
    call = typed(tmp_path / "b", FakeDesk(), stdin=f"{TOKEN}\n")
    assert await adds(call, Adding("pigeon", (), True, True, False), pigeon(mistaken)) == ExitCode.OK


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("retries=many",), ExitCode.USAGE, "retries"),
        (("unknown=1",), ExitCode.USAGE, "unknown"),
        (("nonsense",), ExitCode.USAGE, "NAME=VALUE"),
        (("server.deep=1",), ExitCode.USAGE, "server"),
        (("server=${NOT_SET_ANYWHERE}",), ExitCode.USAGE, "NOT_SET_ANYWHERE"),
    ],
)
async def test_wrong_options_are_said_and_nothing_is_written(
    tmp_path: Path, options: tuple[str, ...], code: ExitCode, words: str
) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n")
    assert await adds(call, Adding("pigeon", options, token_stdin=True, yes=True)) == code
    assert words in noted(call)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["Pigeon!", "pigeon/", "../x", "pigeon/a/b", ""])
async def test_a_wrong_name_is_a_mistake_of_the_command_line(tmp_path: Path, name: str) -> None:
    assert await adds(typed(tmp_path, FakeDesk()), Adding(name)) == ExitCode.USAGE


async def test_a_missing_answer_is_named_with_the_ways_to_give_it(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk())
    assert await adds(call, Adding("pigeon", yes=True)) == ExitCode.USAGE
    assert "--option token=…, or PIGEON_TOKEN in the environment" in noted(call)
    ended = typed(tmp_path, FakeDesk(), stdin="")
    assert await adds(ended, Adding("pigeon")) == ExitCode.FAILED
    assert "the input ended" in noted(ended)


@pytest.mark.parametrize(
    "odd", ["a'b\"c\\d $HOME `x` ${Y} #é😀", "  spaces inside it ", "=======", "'quoted'"]
)
async def test_a_token_is_kept_to_the_letter(tmp_path: Path, odd: str) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{odd}\n\n")
    assert await adds(call, Adding("pigeon")) == ExitCode.OK
    assert settings_of(tmp_path).platforms["pigeon"].plain_options()["token"] == odd.strip()


async def test_dollars_in_other_answers_are_no_variables(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\nhttps://x/${{y}}\n")
    assert await adds(call, Adding("pigeon")) == ExitCode.OK
    assert settings_of(tmp_path).platforms["pigeon"].plain_options()["server"] == "https://x/${y}"


async def test_settings_that_are_wrong_already_are_said_first(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("server: {prot: 1}\n")
    with pytest.raises(SettingsError):
        await adds(typed(tmp_path, FakeDesk(), stdin=f"{TOKEN}\n\n"), Adding("pigeon"))


async def test_a_running_process_has_to_be_restarted(tmp_path: Path) -> None:
    desk = FakeDesk()
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk, stdin=f"{TOKEN}\n\n")
        assert await adds(call, Adding("pigeon")) == ExitCode.OK
    assert "restart it" in printed(call)


async def test_what_is_missing_on_this_machine_is_said(tmp_path: Path) -> None:
    entry = pigeon(check=lambda: "the package pigeonlib is missing.", install_hint="pip install pigeonlib")
    call = typed(tmp_path, FakeDesk())
    assert await adds(call, Adding("pigeon"), entry) == ExitCode.FAILED
    assert "pip install pigeonlib" in noted(call)


async def test_a_secret_between_two_programs_is_made(tmp_path: Path) -> None:
    question = Question("token", "Shared secret", variable="PIGEON_SECRET", made=True)
    call = typed(tmp_path, FakeDesk(), stdin="\n")
    entry = pigeon(questions=(question,), checks_speakers=True)
    assert await adds(call, Adding("pigeon"), entry) == ExitCode.OK
    made = read_env(tmp_path / FILE)["PIGEON_SECRET"]
    assert re.fullmatch(r"[0-9a-f]{64}", made)
    assert "PIGEON_SECRET" in printed(call)
    assert made not in printed(call) + noted(call)
    assert "/claim" not in printed(call)


async def test_all_platforms_are_listed_also_broken_ones(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("platforms: {pigeon/home: {enabled: false}}\n")
    found = registry()
    found.register(
        replace(pigeon(), name="owl", title="Owls", check=lambda: "no owl here.", install_hint="Buy one.")
    )
    found.sources["broken"] = lambda: json
    call = typed(tmp_path, FakeDesk())
    assert await add_platform(call, Adding(None), found) == ExitCode.OK
    lines = printed(call).splitlines()
    assert lines[0].startswith("broken")
    assert "cannot be loaded" in lines[0]
    assert lines[1].split() == ["owl", "Owls", "needs", "something:", "no", "owl", "here.", "Buy", "one."]
    assert lines[2].split() == ["pigeon", "Carrier", "pigeons", "set:", "pigeon/home"]


def test_every_built_in_platform_can_be_added() -> None:
    """Its questions name options that there are, and secrets have variables."""
    found = Registry.discover(())
    for name in found.names():
        entry = found.get(name)
        for question in entry.questions:
            option = question.option.split(".")[0]
            assert option in entry.config.model_fields, (name, question.option)
            secret = "SecretStr" in str(entry.config.model_fields[option].annotation)
            assert not secret or question.variable, (name, question.option)
            assert not question.variable or re.fullmatch(r"[A-Z][A-Z0-9_]*", question.variable)
