"""The check of an account, and posts without a connection."""

import json
from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.discord import PLATFORM
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.registry import Finding
from messages.delivery import ProblemKind
from tests.platforms.discord.line import Wire
from tests.platforms.discord.shapes import SHAPES
from tests.platforms.fuzz import mutated
from tests.platforms.simulators.discord import DiscordSimulator

pytestmark = pytest.mark.slow


async def examine(sim: DiscordSimulator, **options: Any) -> tuple[Finding, ...]:
    assert PLATFORM.examine is not None
    context = EdgeContext(platform="discord", account="main", clock=WallClock())
    return await PLATFORM.examine(DiscordOptions(**sim.options(**options)), context)


async def test_a_good_account(sim: DiscordSimulator) -> None:
    findings = await examine(sim)
    assert all(finding.ok for finding in findings), findings
    assert "callboard" in findings[0].what


async def test_a_bad_token_is_one_finding_with_its_remedy(sim: DiscordSimulator) -> None:
    (finding,) = await examine(sim, token="wrong")
    assert not finding.ok
    assert "Reset Token" in finding.remedy


async def test_a_missing_intent_and_permissions(sim: DiscordSimulator) -> None:
    await sim.misbehaves("no_intent")
    await sim.misbehaves("no_permissions")
    bad = [finding for finding in await examine(sim) if not finding.ok]
    assert "Message Content Intent" in bad[0].what
    assert "Send Messages" in bad[1].what
    assert "client_id=100000000000000002" in bad[1].remedy
    said = [finding.what for finding in await examine(sim, message_content=False)]
    assert any("only mentions" in what for what in said)


async def test_a_service_that_cannot_be_reached(sim: DiscordSimulator) -> None:
    with pytest.raises(EdgeError) as said:
        await examine(sim, api="http://127.0.0.1:9/api")
    assert said.value.problem.kind is ProblemKind.TRANSIENT


async def test_a_post_without_a_connection(sim: DiscordSimulator, tmp_path: Path) -> None:
    await sim.says("lobby", "ann", "hi")
    post = Wire(sim, tmp_path).post(await sim.id_of("lobby"), "news")
    assert PLATFORM.standalone is not None
    receipt = await PLATFORM.standalone(DiscordOptions(**sim.options()), post)
    (standing,) = await sim.posts("lobby")
    assert (standing.id, standing.text) == (receipt, "news")
    assert (await sim.state())["sessions"] == 0


async def test_odd_events_do_not_end_the_connection(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        for raw in mutated(SHAPES, 13, 400):
            try:
                text = json.dumps(raw, default=str)
            except (ValueError, RecursionError, TypeError):
                continue
            told = json.loads(text) if len(text) < 100_000 else None
            if isinstance(told, dict) and isinstance(told.get("t"), str):
                await sim.control("raw", name=told["t"], data=told.get("d"))
        await sim.says("lobby", "ann", "the end")
        await wire.desk.until(lambda: any(getattr(m, "text", "") == "the end" for m in wire.desk.heard))
        assert wire.connections == 1
