"""Profiles: each with its own prompt, model, tools and files; `main` for all that is not set."""

from pathlib import Path

import pytest

from actors.session.profiles import Profiles, build, name_in
from actors.tool.builtin.clock import current_time
from actors.tool.catalogue import spec_of
from messages.ids import SessionKey
from messages.model import ModelRef
from messages.settings import Settings

KEY = SessionKey("agent:{}:discord:main:group:lobby:ann")


def resolve(text: str) -> ModelRef:
    provider, slash, name = text.partition("/")
    if not slash:
        raise ValueError(f"There is no model {text!r}.")
    return ModelRef(provider=provider, name=name)


def built(tmp_path: Path, **more: object) -> tuple[Profiles, tuple[str, ...]]:
    settings = Settings.model_validate({"session": {"instructions": "Be kind."}, **more})

    def folder(name: str) -> Path:
        made = tmp_path / name
        made.mkdir(parents=True, exist_ok=True)
        return made

    spec = spec_of(current_time)
    assert spec is not None
    return build(settings, [spec], folder=folder, results=folder("results"), resolve=resolve)


def of(profiles: Profiles, name: str) -> tuple[str, ModelRef | None, Path]:
    profile = profiles.of(SessionKey(KEY.format(name)))
    return profile.instructions, profile.model, profile.catalogue.workspace.root


def test_without_profiles_there_is_main(tmp_path: Path) -> None:
    profiles, wrong = built(tmp_path)
    assert of(profiles, "main") == ("Be kind.", None, tmp_path / "workspace")
    assert (profiles.names(), wrong) == (("main",), ())


def test_a_profile_has_its_own_prompt_model_tools_and_files(tmp_path: Path) -> None:
    profiles, wrong = built(
        tmp_path,
        profiles={"pirate": {"instructions": "Arr.", "model": "openai/x", "tools_disable": ["current_time"]}},
    )
    assert wrong == ()
    instructions, model, workspace = of(profiles, "pirate")
    assert (instructions, model) == ("Arr.", ModelRef(provider="openai", name="x"))
    assert workspace == tmp_path / "profiles/pirate/workspace"
    assert profiles.catalogue_of(SessionKey(KEY.format("pirate"))).schemas() == ()
    assert len(profiles.catalogue_of(SessionKey(KEY.format("main"))).schemas()) == 1


def test_what_a_profile_does_not_set_is_as_in_main(tmp_path: Path) -> None:
    profiles, _ = built(tmp_path, tools={"allow": ["*"]}, profiles={"plain": {}})
    profile = profiles.of(SessionKey(KEY.format("plain")))
    assert profile.instructions == "Be kind."
    assert profile.catalogue.settings.allow == ("*",)


def test_a_session_whose_profile_is_gone_goes_on_as_main(tmp_path: Path) -> None:
    profiles, _ = built(tmp_path)
    assert profiles.of(SessionKey(KEY.format("gone"))) is profiles.main
    assert profiles.of(SessionKey("odd")) is profiles.main


def test_main_itself_may_be_described_as_a_profile(tmp_path: Path) -> None:
    profiles, _ = built(tmp_path, profiles={"main": {"instructions": "I am main."}})
    assert profiles.main.instructions == "I am main."


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"profiles": {"pirate": {"model": "nonsense"}}}, "profiles.pirate.model"),
        ({"routes": [{"profile": "nobody", "chat": "1"}]}, "nobody"),
        ({"profiles": {"a:b": {}}}, "a:b"),
    ],
)
def test_what_is_wrong_is_said_and_stops_nothing(
    tmp_path: Path, settings: dict[str, object], word: str
) -> None:
    profiles, wrong = built(tmp_path, **settings)
    assert any(word in each for each in wrong)
    assert profiles.main.name == "main"


@pytest.mark.parametrize("name", ["main", "night-shift", "team_2"])
def test_the_name_is_read_out_of_the_key(name: str) -> None:
    assert name_in(SessionKey(KEY.format(name))) == name
