"""Profiles: several personas in one process, each with its own prompt, model, tools and files.

A profile is a part of the session key, so personas never share a conversation, nor
what they find when they search the history. Its provider is its key: two entries of
`providers` with two keys are two bills. `main` is the one that is always there; what a
profile does not set is as in `main`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from actors.tool.catalogue import Catalogue
from actors.tool.spec import ToolSpec
from messages.ids import SessionKey
from messages.model import ModelRef
from messages.settings import ProfileSettings, Settings, ToolSettings

log = structlog.get_logger(__name__)

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a conversation goes by."""

    name: str
    instructions: str
    catalogue: Catalogue
    model: ModelRef | None = None
    """None: the configured one."""


class Profiles:
    """All profiles of a process, by the name that stands in a session's key."""

    def __init__(self, main: Profile, others: Mapping[str, Profile] | None = None) -> None:
        self.main = main
        self._all = {**(others or {}), MAIN: main}

    def of(self, key: SessionKey) -> Profile:
        """Return the profile of a session; `main` where its profile is not configured any more."""
        return self._all.get(name_in(key), self.main)

    def catalogue_of(self, key: SessionKey) -> Catalogue:
        """Return the tools of a session."""
        return self.of(key).catalogue

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._all))


def name_in(key: SessionKey) -> str:
    """Read the profile's name out of a key, without reading all of it. Names need no encoding, see `problems`."""
    return key.split(":", 2)[1] if ":" in key else MAIN


def build(
    settings: Settings,
    specs: Iterable[ToolSpec],
    *,
    folder: Callable[[str], Path],
    results: Path,
    resolve: Callable[[str], ModelRef],
) -> tuple[Profiles, tuple[str, ...]]:
    """Make the profiles of the settings; and what is wrong with them, each with its remedy.

    `folder` makes a folder of the data folder; `resolve` reads `provider/model` and
    raises ValueError. A profile whose model is not known answers with the usual one.
    """
    specs, tools = tuple(specs), settings.tools
    main = Profile(
        MAIN,
        settings.session.instructions,
        Catalogue(specs, tools, folder(tools.workspace or "workspace"), results),
    )
    others: dict[str, Profile] = {}
    wrong: list[str] = []
    for name, each in settings.profiles.items():
        model = None
        if each.model is not None:
            try:
                model = resolve(each.model)
            except ValueError as error:
                wrong.append(f"profiles.{name}.model: {error}")
        its = folder(each.workspace or f"profiles/{name}/workspace")
        others[name] = Profile(
            name,
            each.instructions if each.instructions is not None else settings.session.instructions,
            Catalogue(specs, _tools_of(each, settings), its, results),
            model,
        )
    main = others.pop(MAIN, main)
    return Profiles(main, others), (*wrong, *problems(settings))


def _tools_of(profile: ProfileSettings, settings: Settings) -> ToolSettings:
    changes = {
        name: value
        for name, value in (("allow", profile.tools_allow), ("disable", profile.tools_disable))
        if value is not None
    }
    return settings.tools.model_copy(update=changes)


def problems(settings: Settings) -> tuple[str, ...]:
    """Say which routes lead nowhere, and which names cannot stand in a key."""
    wrong = [
        f"routes: no profile is called {route.profile!r}; add profiles.{route.profile}, or change the route"
        for route in settings.routes
        if route.profile != MAIN and route.profile not in settings.profiles
    ]
    wrong += [
        f"profiles: {name!r} is no name for a profile; use letters, digits, `-` and `_`"
        for name in settings.profiles
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii()
    ]
    return tuple(wrong)
