"""Programs for processes that tests raise."""

import ctypes
import json
import os
import time

from actors.cluster.port import Channel, ProcessGoneError


async def obey(channel: Channel) -> None:
    """Do as each frame says, until the line is closed."""
    while True:
        try:
            frame = json.loads(await channel.hear())
        except ProcessGoneError:
            return
        match frame:
            case {"echo": text}:
                await channel.tell(json.dumps({"echo": text}).encode())
            case {"parent": _}:
                await channel.tell(json.dumps({"pid": os.getpid(), "parent": os.getppid()}).encode())
            case {"block": seconds}:
                time.sleep(seconds)  # noqa: ASYNC251 that is what is wanted
            case {"fault": _}:
                ctypes.string_at(0)
            case {"flood": count}:
                for number in range(count):
                    await channel.tell(json.dumps({"number": number}).encode())
            case {"environment": _}:
                await channel.tell(json.dumps(dict(os.environ)).encode())
