"""A server for sending that misbehaves: every answer has its meaning, and what may have gone out is unknown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiosmtpd import smtp as smtpd
from aiosmtpd.smtp import AuthResult, Envelope, Session

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.email.edge import EmailEdge
from actors.gateway.platforms.email.options import EmailOptions
from messages.delivery import ProblemKind as K
from tests.platforms.email.conftest import post

OPTIONS = {
    "address": "bot@x.org",
    "password": "pw",
    "imap_host": "127.0.0.1",
    "smtp_host": "127.0.0.1",
    "smtp_security": "none",
    "imap_security": "none",
    "keep_copy": "none",
}


@dataclass
class Server:
    """Answers as it is told, and remembers what it took."""

    at_sender: str = "250 OK"
    at_recipient: str = "250 OK"
    at_data: str = "250 OK"
    """`silence`: it takes the mail and says nothing; `cut`: it takes it and hangs up."""
    taken: list[Envelope] = field(default_factory=list)
    port: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle_MAIL(
        self, server: smtpd.SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.at_sender.startswith("250"):
            envelope.mail_from = address
        return self.at_sender

    async def handle_RCPT(
        self, server: smtpd.SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.at_recipient.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.at_recipient

    async def handle_DATA(self, server: smtpd.SMTP, session: Session, envelope: Envelope) -> str:
        if self.at_data.startswith(("250", "cut", "silence")):
            self.taken.append(envelope)
        if self.at_data == "cut":
            assert isinstance(server.transport, asyncio.WriteTransport)
            server.transport.abort()
        if self.at_data == "silence":
            await self.over.wait()
        return self.at_data

    @asynccontextmanager
    async def runs(self, **more: Any) -> AsyncIterator["Server"]:
        server = await asyncio.get_running_loop().create_server(
            lambda: smtpd.SMTP(self, enable_SMTPUTF8=True, loop=asyncio.get_running_loop(), **more),
            "127.0.0.1",
            0,
        )
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.over.set()
            server.close()


def _auth(password: bytes) -> Callable[..., AuthResult]:
    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=data.password == password, handled=False)

    return check


async def sends(server: Server, **more: Any) -> str:
    options = EmailOptions.model_validate({**OPTIONS, "smtp_login": False, "smtp_port": server.port, **more})
    return await EmailEdge(options, EdgeContext("email", "main", WallClock())).say_alone(post("ann@x.org"))


async def fails(server: Server, **more: Any) -> EdgeError:
    with pytest.raises(EdgeError) as failed:
        await sends(server, **more)
    return failed.value


async def test_a_mail_goes_out_with_a_key_as_its_id() -> None:
    async with Server().runs() as server:
        assert (await sends(server)).endswith(".callboard@x.org")
        assert [e.rcpt_tos for e in server.taken] == [["ann@x.org"]]
        await sends(server, keep_copy="self")
        assert server.taken[1].rcpt_tos == ["ann@x.org", "bot@x.org"]


@pytest.mark.parametrize(
    ("stage", "answer", "kind"),
    [
        ("at_sender", "550 5.7.1 not your address", K.NEEDS_HUMAN),
        ("at_sender", "451 4.3.0 later", K.TRANSIENT),
        ("at_sender", "450 4.7.1 Too many messages, slow down", K.RATE_LIMITED),
        ("at_recipient", "550 5.1.1 User unknown", K.TARGET_GONE),
        ("at_recipient", "550 No such user here", K.TARGET_GONE),
        ("at_recipient", "450 4.2.0 Greylisted", K.TRANSIENT),
        ("at_recipient", "550 5.7.1 Rejected by policy", K.REFUSED),
        ("at_data", "554 5.6.0 spam", K.REFUSED),
        ("at_data", "552 5.3.4 too large", K.REFUSED),
        ("at_data", "451 4.3.1 disk full", K.TRANSIENT),
        ("at_data", "cut", K.UNKNOWN),
    ],
)
async def test_each_answer_has_its_meaning(stage: str, answer: str, kind: K) -> None:
    async with Server(**{stage: answer}).runs() as server:  # type: ignore[arg-type]
        error = await fails(server)
        assert error.problem.kind is kind
        assert bool(error.problem.retry_after_s) is (kind is K.RATE_LIMITED)
        assert len(server.taken) == (answer == "cut")


@pytest.mark.slow
async def test_a_post_can_be_given_up_while_the_server_is_silent() -> None:
    async with Server(at_data="silence").runs() as server:
        task = asyncio.create_task(sends(server))
        async with asyncio.timeout(30):
            while not server.taken:
                await asyncio.sleep(0.01)
        task.cancel()  # as the runtime does when the time for a post is over
        async with asyncio.timeout(5):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


@pytest.mark.filterwarnings("ignore:Requiring AUTH:UserWarning")
async def test_logins() -> None:
    more = {"authenticator": _auth(b"pw"), "auth_require_tls": False, "auth_required": True}
    async with Server().runs(**more) as server:
        await sends(server, smtp_login=True)
        wrong = await fails(server, smtp_login=True, smtp_password="no")
        assert wrong.problem.kind is K.NEEDS_HUMAN
        assert "'no'" not in str(wrong)
        without = await fails(server)
        assert without.problem.kind is K.NEEDS_HUMAN
    async with Server().runs() as server:
        assert (await fails(server, smtp_login=True)).problem.kind is K.NEEDS_HUMAN


async def test_no_server_and_no_tls() -> None:
    server = Server(port=1)
    assert (await fails(server)).problem.kind is K.TRANSIENT
    async with Server().runs() as up:
        assert (await fails(up, smtp_security="starttls")).problem.kind is K.NEEDS_HUMAN


async def test_addresses_beyond_ascii_go_out_where_the_server_can() -> None:
    async with Server().runs() as server:
        options = EmailOptions.model_validate({**OPTIONS, "smtp_login": False, "smtp_port": server.port})
        edge = EmailEdge(options, EdgeContext("email", "main", WallClock()))
        await edge.say_alone(post("jürgen@münchen.example"))
        assert server.taken[0].rcpt_tos == ["jürgen@münchen.example"]
