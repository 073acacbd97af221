"""Asking Telegram for updates, for ever.

Nothing is confirmed before it is handed in. What goes wrong with the asking alone (another
program asks too, a gateway is down for a while) does not end the connection: posts go on,
and the status says what is the matter.
"""

from collections.abc import Callable
from typing import Any, Final

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram.api import Api, ApiError
from actors.gateway.platforms.telegram.intake import Intake
from actors.gateway.platforms.telegram.translate import UPDATES
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

CONFLICT_WAITS: Final = (1.0, 30.0)
TROUBLE_WAITS: Final = (0.25, 5.0)
"""The first wait, which doubles, and the longest; in seconds. Nobody else waits for the same: no jitter."""
MOST_LOST: Final = 4
"""So many times in a row without any answer, and there is no connection."""
MOST_ODD: Final = 60
"""So many useless answers in a row (some minutes), and the connection is made anew."""
LONG_CONFLICT_S: Final = 600.0
SHORT_WAIT_S: Final = 0.3
"""While something is being handed in, new updates are looked for so often."""
PEACE_S: Final = 10
"""So long after the last conflict, the other program is taken to be gone."""
GRACE_S: Final = 15.0
WEEK_S: Final = 6 * 86_400.0

ANOTHER = "another program polls with this token"
ANOTHER_LONG = (
    "another program has polled with this token for {minutes:.0f} minutes, and takes messages away from us: "
    "stop it, or give the bot a new token at @BotFather (/revoke)"
)
WEBHOOK = (
    "another program has set a webhook for this token, so nothing can be polled: stop it, "
    "or set options.webhook here"
)


class Poller:
    """Asks, one question at a time."""

    def __init__(
        self,
        api: Api,
        intake: Intake,
        clock: Clock,
        trouble: Callable[[str], None],
        poll_s: int,
    ) -> None:
        self._api = api
        self._intake = intake
        self._clock = clock
        self._trouble = trouble
        self._poll_s = poll_s
        self._lost = 0
        self._odd = 0
        self._conflicts = 0
        self._conflict_since: float | None = None
        self._conflict_at = 0.0
        self._said = ""
        self.answered_at = clock.monotonic()
        """When Telegram last answered, whatever it was."""
        self._news_at = clock.monotonic()

    async def run(self) -> None:
        """Ask until it is cancelled, or the connection is lost. Raises EdgeError."""
        while True:
            updates = await self._ask(0 if self._intake.busy else self._patience())
            if updates is None:
                continue
            for update in updates:
                self._intake.take(update)
            if updates:
                self._news_at = self._clock.monotonic()
            elif self._clock.monotonic() - self._news_at > WEEK_S:
                self._intake.forget_numbers()
            await self._intake.settle(SHORT_WAIT_S)

    async def _ask(self, seconds: int) -> list[Any] | None:
        parameters: dict[str, Any] = {"timeout": seconds, "limit": 100, "allowed_updates": list(UPDATES)}
        offset = self._intake.next_offset()
        if offset is not None:
            parameters["offset"] = offset
        try:
            updates = await self._api.call("getUpdates", wait_s=seconds + GRACE_S, **parameters)
        except ApiError as error:
            await self._failed(error)
            return None
        if not isinstance(updates, list):
            await self._useless("an answer of an odd shape")
            return None
        self._well()
        return updates

    def _patience(self) -> int:
        return min(self._poll_s, PEACE_S) if self._conflicts else self._poll_s

    def _well(self) -> None:
        now = self.answered_at = self._clock.monotonic()
        self._lost = self._odd = 0
        if self._conflicts and now - self._conflict_at < PEACE_S:
            return  # each question sends the other program's away: one answer is no proof
        self._conflicts = 0
        self._conflict_since = None
        self._say("")

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.warning("telegram is in trouble", why=what) if what else log.info("telegram is well again")
            self._trouble(what)

    # ------------------------------------------------------------------ what goes wrong

    async def _failed(self, error: ApiError) -> None:
        answer, problem = error.answer, error.problem
        if answer is None:
            await self._no_answer(problem.detail)
            return
        self.answered_at = self._clock.monotonic()
        self._lost = 0
        match answer.status:
            case 409:
                await self._conflict(answer.description)
            case 420 | 429:
                seconds = answer.retry_after_s or wait_of(TROUBLE_WAITS, self._odd + 1)
                if seconds > 60:
                    self._say(
                        f"Telegram wants us to wait {seconds:.0f} seconds before we ask for messages again"
                    )
                await self._clock.sleep(seconds)
            case 401 | 404:
                raise EdgeError(ProblemKind.NEEDS_HUMAN, problem.detail)
            case _:
                await self._useless(problem.detail)

    async def _no_answer(self, why: str) -> None:
        self._lost += 1
        if self._lost >= MOST_LOST:
            raise EdgeError(ProblemKind.TRANSIENT, why)
        await self._clock.sleep(wait_of(TROUBLE_WAITS, self._lost))

    async def _useless(self, why: str) -> None:
        self._odd += 1
        if self._odd >= MOST_ODD:
            raise EdgeError(ProblemKind.TRANSIENT, why)
        if self._odd > 2:
            self._say(f"no updates: {why}")
        await self._clock.sleep(wait_of(TROUBLE_WAITS, self._odd))

    async def _conflict(self, description: str) -> None:
        now = self._clock.monotonic()
        self._conflict_since = now if self._conflict_since is None else self._conflict_since
        self._conflict_at = now
        self._conflicts += 1
        lasts = now - self._conflict_since
        if "webhook" in description.lower():
            self._say(WEBHOOK)
        elif lasts > LONG_CONFLICT_S:
            self._say(ANOTHER_LONG.format(minutes=lasts // 600 * 10))
        else:
            self._say(ANOTHER)
        await self._clock.sleep(wait_of(CONFLICT_WAITS, self._conflicts))


def wait_of(limits: tuple[float, float], attempt: int) -> float:
    """Return how long to wait before the try after so many failures (from 1)."""
    first, most = limits
    return min(first * 2.0 ** min(attempt - 1, 20), most)
