"""The scripted chat platform of a chaos run, in its own process: three accounts of the bridge protocol.

It is a bad platform on purpose: slow, refusing, rate-limited, taking a post and never
saying so, saying so twice, hanging up in the middle. What it has posted it keeps, as
people would see it.

    python -m tests.chaos.platform_process FOLDER SEED

It listens on FOLDER/keyed.sock, looked.sock and bare.sock. Commands come as JSON lines on
standard input: {"say": {"id", "account", "chat", "text", "twice"}}, {"calm": true} (no
more mischief). Events go as JSON lines to standard output: up, hello, ack, refused, posted.
"""

import asyncio
import hmac
import json
import random
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.plan import Account

Json = dict[str, Any]

SECRET = "chaos-secret-of-the-bridge"
ACCOUNTS: tuple[Account, ...] = ("keyed", "looked", "bare")
LIMIT = 600
"""The longest post, in characters: long answers come in parts."""

MISCHIEF = ("slow", "transient", "rate_limited", "no_receipt", "unknown", "twice", "hang_up", "hang_up_first")


def tell(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)  # noqa: T201 this program's output


@dataclass
class Posted:
    """A post as people see it."""

    key: str
    chat: str
    text: str
    receipt: str


@dataclass
class Line:
    """One account of the platform: what its people have said, what was posted, and the line to Callboard."""

    account: Account
    chance: random.Random
    calm: bool = False
    unheard: dict[str, Json] = field(default_factory=dict)
    """What was said and is not acknowledged, in order."""
    posts: list[Posted] = field(default_factory=list)
    writer: asyncio.StreamWriter | None = None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # ------------------------------------------------------------------ people

    def people_say(self, message: Json) -> None:
        said = {
            "type": "message",
            "id": message["id"],
            "chat": message["chat"],
            "chat_type": "dm",
            "user": message["chat"],
            "name": "Somebody",
            "text": message["text"],
        }
        self.unheard[message["id"]] = said
        for _ in range(2 if message["twice"] else 1):
            self.send(said)

    # ---------------------------------------------------------------- the line

    def send(self, what: Json) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(json.dumps(what).encode() + b"\n")

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await self._greet(reader, writer):
                await self._listen(reader)
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # the other side was killed
        finally:
            if self.writer is writer:
                self.writer = None
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        ours = secrets.token_hex(16)
        writer.write(json.dumps({"type": "hello", "protocol": 1, "nonce": ours}).encode() + b"\n")
        hello = json.loads(await reader.readline() or b"{}")
        theirs = hello.get("nonce", "")
        if not hmac.compare_digest(hello.get("proof", ""), _proof(f"callboard:{ours}:{theirs}")):
            return False
        welcome = {"type": "welcome", "proof": _proof(f"bridge:{ours}:{theirs}")}
        writer.write(json.dumps(welcome).encode() + b"\n")
        self.writer = writer
        tell("hello", account=self.account)
        for said in tuple(self.unheard.values()):
            self.send(said)
        return True

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while raw := await reader.readline():
            heard = json.loads(raw)
            match heard.get("type"):
                case "ack" | "refused" as kind:
                    self.unheard.pop(heard["id"], None)
                    tell(kind, account=self.account, id=heard["id"], why=heard.get("why", ""))
                case "say":
                    task = asyncio.create_task(self._said(heard))
                    self.tasks.add(task)
                    task.add_done_callback(self.tasks.discard)
                case "find":
                    found = next((p.receipt for p in self.posts if p.key == heard["key"]), None)
                    self.send({"type": "found", "key": heard["key"], "receipt": found})
                case "ping":
                    self.send({"type": "pong"})
                case _:
                    pass

    # ----------------------------------------------------------------- posting

    async def _said(self, say: Json) -> None:
        wrong = "" if self.calm or self.chance.random() > 0.2 else self.chance.choice(MISCHIEF)
        key = say["key"]
        if wrong == "slow":
            await asyncio.sleep(self.chance.uniform(0.05, 0.3))
        if wrong == "transient":
            self.send({"type": "error", "key": key, "kind": "transient"})
            return
        if wrong == "rate_limited":
            self.send({"type": "error", "key": key, "kind": "rate_limited", "retry_after": 0.3})
            return
        if wrong == "hang_up_first":
            self._hang_up()
            return
        receipt = self._post(say)
        await asyncio.sleep(0.02)  # time to die between posting and saying so
        match wrong:
            case "no_receipt":
                return
            case "unknown":
                self.send({"type": "error", "key": key, "kind": "unknown"})
            case "hang_up":
                self._hang_up()
            case _:
                for _ in range(2 if wrong == "twice" else 1):
                    self.send({"type": "receipt", "key": key, "receipt": receipt})

    def _post(self, say: Json) -> str:
        known = next((p for p in self.posts if p.key == say["key"]), None)
        if known is not None and self.account == "keyed":
            return known.receipt
        post = Posted(say["key"], say["chat"], say["text"], f"{self.account}-post-{len(self.posts) + 1}")
        self.posts.append(post)
        tell(
            "posted",
            account=self.account,
            key=post.key,
            chat=post.chat,
            text=post.text,
            reply_to=say.get("reply_to"),
            part=say.get("part", 1),
            of=say.get("of", 1),
            marked=bool(say.get("maybe_duplicate")),
        )
        return post.receipt

    def _hang_up(self) -> None:
        if self.writer is not None:
            self.writer.close()


def _proof(text: str) -> str:
    return hmac.new(SECRET.encode(), text.encode(), "sha256").hexdigest()


async def main(folder: Path, seed: int) -> None:
    lines = {account: Line(account, random.Random(f"{seed}-{account}")) for account in ACCOUNTS}
    servers = [
        await asyncio.start_unix_server(line.connected, folder / f"{account}.sock", limit=2**21)
        for account, line in lines.items()
    ]
    tell("up")
    stdin = asyncio.StreamReader(limit=2**21)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    while raw := await stdin.readline():
        command = json.loads(raw)
        if "say" in command:
            lines[command["say"]["account"]].people_say(command["say"])
        if "calm" in command:
            for line in lines.values():
                line.calm = True
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
