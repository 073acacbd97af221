"""Real mail servers on loopback: dovecot for mailboxes, postfix for sending; with folders of their own.

with MailServers() as mail:
    ann = mail.person("ann")          # ann@test.local, password `pw`
    ann.sends("assistant@test.local", "Subject", "text")
    ann.inbox()                       # what has arrived, parsed

Both must be started as root. Mails go the real way: postfix takes them, and hands them to dovecot.
"""

import imaplib
import os
import pwd
import shutil
import signal
import smtplib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pytest

INSTALL = "tests/counterparts/install_mail.sh"
DOMAIN = "test.local"
PASSWORD = "pw"
PATIENCE_S = 60
POSTFIX = Path("/usr/sbin/postfix")

_DOVECOT = """
base_dir = {folder}/run
log_path = {folder}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%n
mail_uid = {user}
mail_gid = {group}
first_valid_uid = 1
first_valid_gid = 1
default_login_user = nobody
default_internal_user = nobody
default_internal_group = nogroup
mail_max_userip_connections = 50
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/mail/%n allow_all_users=yes
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    port = {lmtp}
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    auto = create
    special_use = \\Sent
  }}
}}
"""

_POSTFIX = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.test.local
mydomain = test.local
mydestination = test.local, mail.test.local, localhost
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
local_recipient_maps =
local_transport = lmtp:inet:127.0.0.1:{lmtp}
default_transport = error:5.1.2 nobody lives there
relayhost =
smtputf8_enable = yes
message_size_limit = 3000000
smtpd_recipient_restrictions = check_recipient_access inline:{{{{gone@test.local=550 5.1.1 User unknown}},
  {{busy@test.local=451 4.2.1 Mailbox busy}}}}, permit_mynetworks, reject
maillog_file = {folder}/postfix.log
maillog_file_prefixes = {folder}
alias_maps =
alias_database =
biff = no
"""


def installed_or_skipped() -> None:
    """Skip the test where the servers are not installed, or we are not root; under CI, fail it."""
    if shutil.which("dovecot") and POSTFIX.exists() and os.getuid() == 0:
        return
    why = f"dovecot and postfix, as root: run {INSTALL}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"needs {why}")
    pytest.skip(f"needs {why}")


def _ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class MailServers:
    """Both servers; `with` starts and ends them."""

    def __init__(self) -> None:
        self._made = TemporaryDirectory(prefix="callboard-mail-", ignore_cleanup_errors=True)
        self.folder = Path(self._made.name)
        self.imap_port, self.lmtp_port, self.smtp_port = _ports(3)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._configure()
        try:
            self.start_dovecot()
            self.start_postfix()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in tuple(self._processes):
            self._end(name)
        self._made.cleanup()

    def start_dovecot(self) -> None:
        command = ["dovecot", "-F", "-c", str(self.folder / "dovecot.conf")]
        self._start("dovecot", command, self.imap_port)

    def stop_dovecot(self) -> None:
        """End it, as a crash of the server would."""
        self._end("dovecot")

    def start_postfix(self) -> None:
        self._start("postfix", [str(POSTFIX), "-c", str(self.folder / "postfix"), "start-fg"], self.smtp_port)

    def _start(self, name: str, command: list[str], port: int) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE_S
        while not _listens(port):
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                told = [
                    p.read_text()
                    for p in (self.folder / f"{name}.out", self.folder / f"{name}.log")
                    if p.exists()
                ]
                raise RuntimeError(f"{name} does not start: {told}")
            time.sleep(0.05)

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        # Both have children of their own, in one session with them.
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
            except ProcessLookupError:
                break
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                continue
        process.wait()

    def _configure(self) -> None:
        for name in ("run", "mail", "postfix", "queue", "data"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # The servers' own users must reach it; pytest's folders are shut to them, again at each session.
        self.folder.chmod(0o755)
        os.chown(self.folder / "mail", *_ids("mail"))
        os.chown(self.folder / "data", *_ids("postfix"))
        ports = {"imap": self.imap_port, "lmtp": self.lmtp_port}
        given = {"folder": self.folder, "user": "mail", "group": "mail", "password": PASSWORD, **ports}
        (self.folder / "dovecot.conf").write_text(_DOVECOT.format(**given))
        (self.folder / "postfix" / "main.cf").write_text(_POSTFIX.format(**given))
        master = []
        for line in Path("/usr/share/postfix/master.cf.dist").read_text().splitlines():
            words = line.split()
            if words[:2] == ["smtp", "inet"]:
                words[0] = f"127.0.0.1:{self.smtp_port}"
            if len(words) >= 8 and not line.startswith((" ", "\t", "#")):
                words[4] = "n"  # no chroot
                master.append(" ".join(words))
            else:
                master.append(line)
        if not any(line.startswith("postlog") for line in master):
            master.append("postlog unix-dgram n - n - 1 postlogd")
        (self.folder / "postfix" / "master.cf").write_text("\n".join(master) + "\n")

    def person(self, name: str) -> "Correspondent":
        return Correspondent(self, name)


def _ids(user: str) -> tuple[int, int]:
    found = pwd.getpwnam(user)
    return found.pw_uid, found.pw_gid


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Correspondent:
    """Somebody with a mailbox; speaks plain SMTP and IMAP with the standard library."""

    def __init__(self, servers: MailServers, name: str) -> None:
        self._servers = servers
        self.name = name
        self.address = f"{name}@{DOMAIN}"
        self._count = 0

    def sends(self, to: str, subject: str, text: str, *, html: str | None = None, **headers: str) -> str:
        """Write a mail; return its id. Underscores in the names of headers are dashes."""
        mail = EmailMessage()
        self._count += 1
        own = f"{self.name}-{self._count}-{time.monotonic_ns()}@client.test"
        given = {"From": f"{self.name.title()} <{self.address}>", "To": to, "Subject": subject}
        given |= {"Message-ID": f"<{own}>"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        for name, value in given.items():
            mail[name] = value
        mail.set_content(text)
        if html is not None:
            mail.add_alternative(html, subtype="html")
        self.sends_raw(to, mail.as_bytes(policy=policy.SMTP))
        return own

    def answers(self, mail: EmailMessage, text: str, **headers: str) -> str:
        """Answer a mail, as a mail program does: with everything quoted below."""
        before = f"{mail['References'] or ''} {mail['Message-ID']}".strip()
        quoted = "\n".join(f"> {line}" for line in body_of(mail).splitlines())
        whole = f"{text}\n\nOn Monday, {mail['From']} wrote:\n{quoted}\n"
        related = {"In_Reply_To": str(mail["Message-ID"]), "References": before, **headers}
        return self.sends(
            str(mail["From"].addresses[0].addr_spec), f"Re: {mail['Subject']}", whole, **related
        )

    def sends_raw(self, to: str, raw: bytes) -> None:
        with smtplib.SMTP("127.0.0.1", self._servers.smtp_port, timeout=30) as smtp:
            smtp.sendmail(self.address, [to], raw)

    def imap(self) -> imaplib.IMAP4:
        client = imaplib.IMAP4("127.0.0.1", self._servers.imap_port, timeout=30)
        client.login(self.name, PASSWORD)
        return client

    def inbox(self, folder: str = "INBOX") -> list[EmailMessage]:
        """Return all mails of a folder, oldest first."""
        with self.imap() as client:
            if client.select(folder, readonly=True)[0] != "OK":
                return []  # nobody has written to them yet
            found = client.search(None, "ALL")[1][0].split()
            raws = [client.fetch(number, "(BODY.PEEK[])")[1][0] for number in found]
        return [message_from_bytes(raw[1], policy=policy.default) for raw in raws if isinstance(raw, tuple)]

    def flags(self, folder: str = "INBOX") -> list[str]:
        """Return the flags of all mails of a folder."""
        with self.imap() as client:
            client.select(folder, readonly=True)
            found = client.search(None, "ALL")[1][0].split()
            return [str(client.fetch(number, "(FLAGS)")[1][0]) for number in found]

    def gets(self, count: int = 1, folder: str = "INBOX") -> list[EmailMessage]:
        """Wait until so many mails are there."""
        found: list[EmailMessage] = eventually(
            lambda: mails if len(mails := self.inbox(folder)) >= count else []
        )
        return found


def body_of(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    return str(part.get_content()).replace("\r\n", "\n").strip() if part is not None else ""


def eventually(what: Callable[[], Any]) -> Any:
    """Ask again and again until the answer is true; return it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


if __name__ == "__main__":
    sys.exit("a library: see tests/platforms/email")
