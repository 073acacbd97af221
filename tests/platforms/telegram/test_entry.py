"""The platform as the registry, `callboard doctor` and a lone post see it."""

import subprocess
import sys

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.registry import Finding, Registry
from messages.delivery import ProblemKind
from messages.settings import PlatformSettings
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.telegram.stage import post

CONTEXT = EdgeContext(platform="telegram", account="main", clock=WallClock())


def test_the_library_is_not_imported_to_know_the_platform() -> None:
    script = (
        "import sys; from actors.gateway.registry import Registry; entry = Registry.discover().get('telegram');"
        "assert entry.limits.length == 4096; assert 'telegram.ext' not in sys.modules;"
        "assert 'httpx' not in sys.modules and 'telegram' not in sys.modules, 'imported'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_it_is_ready_with_a_token_alone() -> None:
    settings = PlatformSettings(options={"token": "7000000001:AAxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"})
    ready = Registry.discover().prepare("telegram", "main", settings, {"TELEGRAM_HOME_CHAT": "-1001"})
    assert (ready.limits.length, ready.limits.caption, ready.home) == (4096, 1024, "-1001")
    assert ready.capabilities.edits
    assert ready.capabilities.unknown_outcome == "send_again"
    assert ready.render is not None
    assert ready.render("**x**") == "x"
    assert ready.entry.check() == ""


def test_a_server_of_ones_own_takes_larger_files() -> None:
    settings = PlatformSettings(
        options={"token": "7000:AAxxxxxxxxxxxx", "api_url": "http://127.0.0.1:8081", "local_server": True}
    )
    ready = Registry.discover().prepare("telegram", "main", settings, {})
    assert (ready.limits.file_bytes, ready.limits.fetch_bytes) == (2_000_000_000, 2_000_000_000)
    assert (ready.limits.length, ready.limits.edits_per_minute) == (4096, 20)


async def examined(sim: TelegramSimulator, **options: object) -> list[Finding]:
    entry = Registry.discover().get("telegram")
    assert entry.examine is not None
    return list(await entry.examine(entry.config(**sim.options(**options)), CONTEXT))


@pytest.mark.slow
async def test_all_is_well(sim: TelegramSimulator) -> None:
    findings = await examined(sim)
    assert all(finding.ok for finding in findings)
    assert "@callboard_sim_bot" in findings[0].what


@pytest.mark.slow
async def test_M13_the_privacy_mode_and_another_programs_webhook_are_found(sim: TelegramSimulator) -> None:
    await sim.tell("privacy", on=True)
    await sim.tell("webhook", url="http://127.0.0.1:9/theirs")
    bad = [finding for finding in await examined(sim) if not finding.ok]
    assert ["/setprivacy" in bad[0].remedy, "another program" in bad[1].what] == [True, True]
    assert all(finding.remedy for finding in bad)


@pytest.mark.slow
async def test_a_bad_token_has_a_remedy_and_nobody_there_is_an_error(sim: TelegramSimulator) -> None:
    (finding,) = await examined(sim, token="7000000001:AAwrongwrongwrongwrong")
    assert not finding.ok
    assert "@BotFather" in finding.remedy
    with pytest.raises(EdgeError) as caught:
        await examined(sim, api_url="http://127.0.0.1:1")
    assert caught.value.problem.kind is ProblemKind.NOT_CONNECTED


@pytest.mark.slow
async def test_a_lone_post_needs_no_connection(sim: TelegramSimulator) -> None:
    await sim.says("kitchen", "ann", "hello")
    chat = (await sim.state())["ids"]["kitchen"]
    entry = Registry.discover().get("telegram")
    assert entry.standalone is not None
    await entry.standalone(entry.config(**sim.options()), post(chat, "**done**"))
    assert [p.text for p in await sim.posts()] == ["done"]
    assert (await sim.state())["pending"] == 1  # nobody asked for updates
