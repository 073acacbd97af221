"""End-to-end encrypted rooms, with a client that encrypts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nio  # type: ignore[import-untyped]
import pytest

from messages.blocks import FileBlock
from messages.delivery import PartText
from tests.counterparts.synapse import PATIENCE_S, Person
from tests.platforms.matrix.conftest import Bot, post

pytest.importorskip("vodozemac", reason="needs matrix-nio[e2e]")
pytestmark = pytest.mark.slow


@asynccontextmanager
async def encrypting(person: Person, folder: Path) -> AsyncIterator[Any]:
    """Let somebody use a client that encrypts."""
    config = nio.AsyncClientConfig(encryption_enabled=True, max_timeouts=3)
    client = nio.AsyncClient(person.url, person.id, store_path=str(folder), config=config)
    client.restore_login(person.id, person.device, person.token)
    try:
        await syncs(client)
        yield client
    finally:
        await client.close()
        client.store.database.close()


async def syncs(client: Any) -> list[Any]:
    told = await client.sync(timeout=0)
    if client.should_upload_keys:
        await client.keys_upload()
    if client.should_query_keys:
        await client.keys_query()
    await client.send_to_device_messages()
    return [event for info in told.rooms.join.values() for event in info.timeline.events]


async def until(client: Any, body: str) -> Any:
    """Sync until a message of this text can be read."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for event in await syncs(client):
                if getattr(event, "body", None) == body:
                    return event
            await asyncio.sleep(0.05)


async def test_an_encrypted_room_is_read_and_answered_in_secret(
    bot: Bot, ann: Person, tmp_path: Path
) -> None:
    bot.options["encryption"] = True
    room = await ann.makes_room(
        invite=[bot.id],
        is_direct=True,
        initial_state=[{"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}],
    )
    async with encrypting(ann, tmp_path) as client, bot.connects() as run:

        async def known() -> bool:
            await syncs(client)
            return any(device.user_id == bot.id for device in client.device_store)

        await ann.until(known)
        said = {"msgtype": "m.text", "body": "a secret"}
        await client.room_send(room, "m.room.message", said, ignore_unverified_devices=True)
        heard = await run.hears("a secret")
        assert heard.origin.chat == room
        sent = await run.edge.say(post(room, "it is *safe*", reply_to=heard.message_id))
        read = await until(client, "it is *safe*")
        assert (read.event_id, read.decrypted) == (sent, True)
        raw = await ann.messages(room, bot.id)
        assert [event["type"] for event in raw] == ["m.room.encrypted"]
        same = post(room, "once")
        first = await run.edge.say(same)
        assert await run.edge.find(same) == first
        given = tmp_path / "plan.txt"
        given.write_bytes(b"the plan")
        block = FileBlock(name="plan.txt", mime="text/plain", path=str(given), size=8)
        await run.edge.say(post(room, body=PartText(text="", file=block)))
        file = await until(client, "plan.txt")
        hidden = await ann.downloads(file.url)
        assert hidden != b"the plan"
        secret = file.source["content"]["file"]
        plain = nio.crypto.decrypt_attachment(
            hidden, secret["key"]["k"], secret["hashes"]["sha256"], secret["iv"]
        )
        assert plain == b"the plan"
        back = {
            "msgtype": "m.file",
            "body": "back.txt",
            "file": {**secret, "url": file.url},
            "info": {"size": 8},
        }
        await client.room_send(room, "m.room.message", back, ignore_unverified_devices=True)
        await run.until(lambda: len(run.said) == 2)
        (attached,) = run.said[1].attachments
        assert isinstance(attached, FileBlock)
        assert await asyncio.to_thread(Path(attached.path).read_bytes) == b"the plan"
    async with bot.connects() as run:  # the keys are kept
        assert await run.edge.find(same) == first
