"""A bridge's greeting may hold anything; a wrong proof is only wrong."""

import asyncio
import json

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.bridge import BridgeEdge, BridgeOptions
from messages.delivery import ProblemKind
from messages.gateway import EdgeHeard, Receipt


async def _hear(_: EdgeHeard) -> Receipt:
    raise AssertionError("nothing is heard before the greeting")


@pytest.mark.parametrize("nonce", ["n" * 16, "\ud83d" * 16, "é" * 16])
@pytest.mark.parametrize("proof", ["é", "\u2019", "\ud83d", "", "0" * 64, 5, None, ["x"]])
async def test_X13_a_proof_of_any_characters_is_only_wrong(nonce: str, proof: object) -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in ({"type": "hello", "protocol": 1, "nonce": nonce}, {"type": "welcome", "proof": proof}):
            writer.write(json.dumps(line).encode() + b"\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greets, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = BridgeOptions.model_validate(
        {"address": f"127.0.0.1:{port}", "secret": "a secret of some length"}
    )
    edge = BridgeEdge(options, EdgeContext("bridge", "main", WallClock()))
    with pytest.raises(EdgeError) as raised:
        await edge.run(_hear, lambda: None)
    assert raised.value.problem.kind is ProblemKind.NEEDS_HUMAN
    server.close()
    await server.wait_closed()
