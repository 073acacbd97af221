"""What `/metrics` says, in Prometheus text. Counted from facts, so that it is true whatever crashed."""

from collections.abc import Callable, Iterable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from actors.session import facts as f
from messages.gateway import StatusReport

TURN_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
CALL_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """All metrics of one process, in a registry of its own."""

    def __init__(self, status: Callable[[], StatusReport]) -> None:
        self._status = status
        self.turns_done = 0
        self._registry = CollectorRegistry()
        r = self._registry
        self._messages = Counter(
            "callboard_messages", "Messages accepted from people.", ["platform"], registry=r
        )
        self._turns = Counter("callboard_turns", "Turns ended, by reason.", ["reason"], registry=r)
        self._turn_seconds = Histogram(
            "callboard_turn_seconds", "From a turn's begin to its end.", buckets=TURN_SECONDS, registry=r
        )
        self._calls = Counter(
            "callboard_model_calls",
            "Model calls, by model and outcome (ok, or the kind of failure).",
            ["provider", "model", "outcome"],
            registry=r,
        )
        self._call_seconds = Histogram(
            "callboard_model_call_seconds",
            "Model calls that were answered.",
            ["provider", "model"],
            buckets=CALL_SECONDS,
            registry=r,
        )
        self._tokens = Counter(
            "callboard_tokens",
            "Tokens as the provider counted them.",
            ["provider", "model", "direction"],
            registry=r,
        )
        self._tools = Counter("callboard_tool_calls", "Tool calls ended.", ["tool", "status"], registry=r)
        self._replies = Counter("callboard_replies", "Replies owed to people.", ["kind"], registry=r)
        self._posts = Counter(
            "callboard_posts",
            "Calls of chat platforms, by how they ended (posted, not_posted, unclear), and replies given_up.",
            ["platform", "outcome"],
            registry=r,
        )
        self._reconnects = Counter(
            "callboard_platform_reconnects", "Connections to platforms made anew.", ["platform"], registry=r
        )
        self._platform_up = Gauge(
            "callboard_platform_up", "Whether an account is connected.", ["platform"], registry=r
        )
        self._left_out = Counter(
            "callboard_messages_not_taken",
            "Messages that were not taken, by why: not_addressed, stranger, blocked, program, for_another, "
            "stale_command, away, role, limited, bot_loop, unknown_account.",
            ["platform", "why"],
            registry=r,
        )
        self._dead = Counter(
            "callboard_dead_letters",
            "Messages given up after crashing their session twice, and replies given up by their outbox.",
            registry=r,
        )
        self.dead_letters_open = 0
        """Those that nobody has decided about; set at the start, counted from then on."""
        self._gauges()

    def _gauges(self) -> None:
        def gauge(name: str, text: str, value: Callable[[StatusReport], float]) -> None:
            Gauge(name, text, registry=self._registry).set_function(lambda: value(self._status()))

        gauge("callboard_uptime_seconds", "Since this life began.", lambda s: s.uptime_s)
        gauge("callboard_sessions_awake", "Sessions in memory.", lambda s: s.sessions_awake)
        gauge("callboard_turns_running", "Turns running now.", lambda s: s.turns_running)
        gauge(
            "callboard_mailbox_refusals", "Messages refused by a full mailbox.", lambda s: s.mailbox_refusals
        )
        gauge("callboard_loop_lag_seconds", "The worst of the last minute.", lambda s: s.loop_lag_ms / 1000)
        gauge("callboard_incidents", "Crashes and restarts in this life.", lambda s: s.incidents)
        gauge(
            "callboard_degraded",
            "Parts that are restarted at the longest interval.",
            lambda s: len(s.degraded),
        )

        Gauge(
            "callboard_dead_letters_open",
            "Dead letters that nobody has decided about.",
            registry=self._registry,
        ).set_function(lambda: self.dead_letters_open)

    def count(self, facts: Iterable[f.SessionFact]) -> None:
        """Count what became true."""
        for fact in facts:
            match fact:
                case f.MessageAccepted():
                    self._messages.labels(fact.origin.platform).inc()
                case f.TurnEnded():
                    self.turns_done += 1
                    self._turns.labels(fact.reason).inc()
                    self._turn_seconds.observe((fact.at - fact.began_at).total_seconds())
                case f.ModelCallAnswered():
                    self._answered(fact)
                case f.ModelCallFailed() if fact.failure.sent:
                    model = fact.failure.model
                    self._calls.labels(model.provider, model.name, fact.failure.kind.value).inc()
                case f.ToolCallEnded():
                    self._tools.labels(fact.name, fact.status.value).inc()
                case f.ReplyOwed():
                    self._replies.labels("notice" if fact.notice else "answer").inc()
                case f.MessageGivenUp():
                    self.count_letter("opened")
                case f.DeadLetterClosed():
                    self.count_letter("closed")
                case _:
                    pass

    def count_post(self, platform: str, outcome: str) -> None:
        """Count how a call of a platform ended."""
        self._posts.labels(platform, outcome).inc()

    def count_letter(self, change: Literal["opened", "closed"]) -> None:
        """Count a dead letter of a reply, or the decision about one."""
        if change == "opened":
            self._dead.inc()
            self.dead_letters_open += 1
        else:
            self.dead_letters_open -= 1

    def count_reconnect(self, platform: str) -> None:
        """Count that an account's connection is made anew."""
        self._reconnects.labels(platform).inc()

    def platform_up(self, platform: str, *, up: bool) -> None:
        """Note whether an account is connected."""
        self._platform_up.labels(platform).set(up)

    def count_at_door(self, platform: str, why: str) -> None:
        """Count a message that was not let in."""
        self._left_out.labels(platform, why).inc()

    def _answered(self, fact: f.ModelCallAnswered) -> None:
        names = (fact.model.provider, fact.model.name)
        self._calls.labels(*names, "ok").inc()
        self._call_seconds.labels(*names).observe((fact.at - fact.began_at).total_seconds())
        if fact.usage.input_tokens is not None:
            self._tokens.labels(*names, "input").inc(fact.usage.input_tokens)
        if fact.usage.output_tokens is not None:
            self._tokens.labels(*names, "output").inc(fact.usage.output_tokens)

    def text(self) -> bytes:
        """Return all of it in Prometheus text format."""
        return generate_latest(self._registry)
