"""What operators may do with the connections to chat platforms while they run."""

from collections.abc import Awaitable, Callable
from typing import Final

from pykka import ActorDeadError

from actors.gateway.platform_rooms import Platforms
from messages.platforms import PlatformAsked, PlatformState, PlatformWish

ANSWER_S: Final = 10.0


class PlatformControlError(Exception):
    """It cannot be done; the text says why."""


class PlatformControl:
    """Lists the accounts, and passes wishes on to their actors."""

    def __init__(self, platforms: Platforms, ask: Callable[[str, PlatformAsked], Awaitable[str]]) -> None:
        """`ask` sends a wish to a room by its name, and returns the state that follows. Raises TimeoutError."""
        self._platforms = platforms
        self._ask = ask

    def states(self) -> tuple[PlatformState, ...]:
        """Say how every account is doing that the settings name."""
        platforms = self._platforms
        processes = platforms.processes()
        served = (self._state(name, processes.get(name, "")) for name in platforms.ready)
        off = (PlatformState(name=name, state="off") for name in platforms.off)
        bad = (PlatformState(name=name, state=f"unusable: {why}") for name, why in platforms.unusable.items())
        return tuple(sorted((*served, *off, *bad), key=lambda each: each.name))

    def _state(self, name: str, process: str) -> PlatformState:
        return PlatformState(name=name, state=self._platforms.states.get(name, "waiting"), process=process)

    async def wish(self, name: str, what: PlatformWish, *, by: str) -> PlatformState:
        """Restart, pause or resume an account. Raises PlatformControlError."""
        if name not in self._platforms.ready:
            raise PlatformControlError(self._why_not(name))
        if what == "restart" and self._platforms.states.get(name) == "paused":
            raise PlatformControlError(f"{name} is paused: resume it.")
        answer = self._ask(f"platform:{name}", PlatformAsked(what=what, by=by))
        try:
            state = await answer
        except (ActorDeadError, TimeoutError):
            raise PlatformControlError(
                f"{name} does not answer now: it is being restarted. Try again in a moment."
            ) from None
        return self._state(name, "").model_copy(update={"state": state})

    def why_not_served(self, name: str) -> str:
        """Say why an account is not served in this life, with the remedy; empty when it is."""
        return "" if name in self._platforms.ready else self._why_not(name)

    def _why_not(self, name: str) -> str:
        if name in self._platforms.off:
            return f"{name} is off in the settings: set platforms.{name}.enabled and restart Callboard."
        if name in self._platforms.unusable:
            return f"{name} cannot be used: {self._platforms.unusable[name]}"
        known = ", ".join(self._platforms.ready) or "none"
        return f"There is no platform {name!r} in the settings. There are: {known}."
