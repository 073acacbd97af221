"""The registry: everything is found, nothing is imported early, nothing broken stops anything."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from actors.console.cli.config import shown
from actors.gateway.platform_rooms import Platforms, rules_of
from actors.gateway.platforms.bridge import PLATFORM
from actors.gateway.registry import GROUP, Limits, PlatformEntry, PlatformUnavailableError, Registry
from actors.settings_file import secrets_in
from messages.settings import PlatformSettings, Settings
from tests.fakes.platform import SECRET

OPTIONS = {"address": "127.0.0.1:7700", "secret": SECRET}
GOOD = PlatformSettings.model_validate({"options": OPTIONS, "home": "lobby"})


def offered(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_the_built_in_ones_are_known_by_name() -> None:
    assert "bridge" in Registry.discover(()).names()
    assert Registry.discover(()).get("bridge") is PLATFORM


def test_nothing_is_imported_before_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "platform_for_test.py").write_text("from actors.gateway.platforms.bridge import PLATFORM\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry.discover([offered("mine", "platform_for_test")])
    assert "platform_for_test" not in sys.modules
    assert registry.get("mine") is PLATFORM
    assert "platform_for_test" in sys.modules


def test_the_last_registration_wins() -> None:
    registry = Registry.discover([offered("bridge", "nowhere_at_all")])
    with pytest.raises(PlatformUnavailableError, match="nowhere_at_all"):
        registry.get("bridge")
    registry.register(PLATFORM)
    assert registry.get("bridge") is PLATFORM


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (offered("mine", "no_such_module"), "No module named"),
        (offered("mine", "actors.gateway.chunks:Unit"), "no PlatformEntry"),
        (offered("mine", "actors.gateway.chunks:nothing"), "nothing"),
    ],
)
def test_a_broken_one_is_a_problem_and_stops_nothing(entry: EntryPoint, words: str) -> None:
    registry = Registry.discover([entry])
    found = Platforms.prepare({"mine": GOOD, "bridge": GOOD, "absent": GOOD}, {}, registry)
    assert list(found.ready) == ["bridge"]
    assert any(words in problem for problem in found.problems)
    assert any("no platform 'absent'" in problem for problem in found.problems)


def entry(**more: object) -> PlatformEntry:
    fields: dict[str, object] = {
        "name": "mine",
        "factory": PLATFORM.factory,
        "config": PLATFORM.config,
        "limits": Limits(100),
    }
    return PlatformEntry(**{**fields, **more})  # type: ignore[arg-type]


def broken() -> str:
    raise RuntimeError("not my day")


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        (entry(check=lambda: "the package x is missing.", install_hint="pip install x"), "pip install x"),
        (entry(required_env=("MY_TOKEN",)), "MY_TOKEN"),
        (entry(limits=Limits(3)), "too short"),
        (entry(check=broken), "not my day"),
    ],
)
def test_what_is_missing_is_said_with_the_remedy(platform: PlatformEntry, words: str) -> None:
    registry = Registry()
    registry.register(platform)
    found = Platforms.prepare({"mine": GOOD}, {}, registry)
    assert found.ready == {}
    assert words in found.problems[0]


def test_wrong_options_are_named_without_their_values() -> None:
    settings = PlatformSettings.model_validate(
        {"options": {"address": "nowhere", "secret": "short-and-secret"[:9]}}
    )
    found = Platforms.prepare({"bridge": settings}, {}, Registry.discover(()))
    assert "address" in found.problems[0]
    assert "short-and" not in found.problems[0]


def test_accounts_homes_and_secrets() -> None:
    named = {"bridge": GOOD, "bridge/work": PlatformSettings.model_validate({"options": OPTIONS})}
    found = Platforms.prepare(named, {"CALLBOARD_BRIDGE_HOME": "elsewhere"}, Registry.discover(()))
    assert found.homes == {"bridge": "lobby", "bridge/work": "elsewhere"}
    assert set(found.secrets()) == {SECRET}
    assert found.ready["bridge/work"].account == "work"


def test_secrets_in_options_are_never_shown() -> None:
    settings = Settings.model_validate(
        {"platforms": {"bridge": {"options": {**OPTIONS, "nested": {"token": "t0k3n-t0k3n"}}}}}
    )
    assert SECRET not in repr(settings)
    assert SECRET not in str(shown(settings))
    assert "t0k3n" not in str(shown(settings))
    assert {secret for _, secret in secrets_in(settings)} == {SECRET, "t0k3n-t0k3n"}
    assert settings.platforms["bridge"].plain_options()["secret"] == SECRET


def test_a_disabled_one_is_left_out() -> None:
    off = GOOD.model_copy(update={"enabled": False})
    assert Platforms.prepare({"bridge": off}, {}, Registry.discover(())).ready == {}


def test_the_outbox_goes_by_options_and_settings() -> None:
    settings = PlatformSettings.model_validate(
        {"options": {**OPTIONS, "limit": 99, "history": True}, "at_once": 3, "unknown_outcome": "leave"}
    )
    rules = rules_of(Platforms.prepare({"bridge": settings}, {}, Registry.discover(())).ready["bridge"])
    assert (rules.limit, rules.history, rules.at_once, rules.unknown_outcome) == (99, True, 3, "leave")


@pytest.mark.parametrize(
    ("platform", "options", "other"),
    [
        ("discord", {"token": "t" * 40}, {"token": "u" * 40}),
        ("telegram", {"token": "123456:" + "A" * 35}, {"token": "654321:" + "A" * 35}),
        (
            "slack",
            {"bot_token": "xoxb-1", "app_token": "xapp-1"},
            {"bot_token": "xoxb-2", "app_token": "xapp-1"},
        ),
    ],
)
def test_M13_two_accounts_with_one_token_are_one_too_many(
    platform: str, options: dict[str, Any], other: dict[str, Any]
) -> None:
    registry = Registry.discover([])
    registry.prepare(platform, "main", PlatformSettings(options=options), {})
    registry.prepare(platform, "main", PlatformSettings(options=options), {})  # the same account, asked again
    registry.prepare(platform, "third", PlatformSettings(options=other), {})
    with pytest.raises(
        PlatformUnavailableError, match=f"'{platform}/second' uses the same `.*` as '{platform}'"
    ) as told:
        registry.prepare(platform, "second", PlatformSettings(options=options), {})
    assert not any(secret in str(told.value) for secret in options.values())
