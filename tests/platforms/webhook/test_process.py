"""The real program: added by the command line, called by a service, with a platform of one's own installed beside it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.counterparts.model_server import Fail, ModelServer, Say
from tests.platforms.webhook.service import SECRET, hex_of, taking_answers
from tests.process.real import PATIENCE_S, Program, callboard, scripted

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def installed(folder: Path) -> dict[str, str]:
    """Install the example platform as a package does; return the environment that finds it."""
    package = folder / "file_drop-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: file-drop\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[callboard.platforms]\nfile_drop = file_drop\n")
    (folder / "file_drop.py").write_text((ROOT / "examples" / "platforms" / "file_drop.py").read_text())
    return {"PYTHONPATH": str(folder), "CALLBOARD_WEBHOOK_SECRET": SECRET}


async def listens_at(program: Program) -> str:
    """Return where the webhooks are taken, as the log says it."""
    log = program.home / "logs" / "callboard.log"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            lines = (
                json.loads(line) for line in log.read_text().splitlines() if "webhooks are taken" in line
            )
            for line in lines:
                return str(line["url"])
            await asyncio.sleep(0.05)


async def calls(url: str, route: str, payload: dict[str, Any], delivery: str) -> tuple[int, dict[str, Any]]:
    body = json.dumps(payload).encode()
    headers = {"X-Signature": hex_of(body), "X-Delivery-Id": delivery, "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/hooks/{route}", data=body, headers=headers) as got,
    ):
        return got.status, await got.json()


def answers_in(folder: Path) -> list[str]:
    return [file.read_text() for file in folder.glob("*.md")]


def pictures_in(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("*.png")]


async def file_in(folder: Path) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := answers_in(folder)):
            await asyncio.sleep(0.05)
    return found[0]


def routes(answer_url: str) -> dict[str, Any]:
    route = {"secret": "${CALLBOARD_WEBHOOK_SECRET}", "prompt": "{payload.text}", "values": "plain"}
    return {
        "sync": {**route, "sync": True},
        "posted": {**route, "answer_url": answer_url},
        "elsewhere": {**route, "target": "file_drop:ann"},
    }


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_from_a_call_to_an_answer_by_every_way(isolation: str, tmp_path: Path) -> None:
    env = installed(tmp_path)
    drop = tmp_path / "drop"
    async with ModelServer() as server, taking_answers() as (answer_url, got):
        webhook = {"isolation": isolation, "options": {"listen": "127.0.0.1:0", "routes": routes(answer_url)}}
        files = {"options": {"folder": str(drop), "every_s": 0.05}}
        settings = {**scripted(server.base_url), "platforms": {"webhook": webhook, "file_drop": files}}
        async with Program(tmp_path / "home", settings, env=env) as program:
            url = await listens_at(program)
            server.will(Say("Hello."), Say("Posted."), Say("Moved."), Say("Dropped."))
            assert (await calls(url, "sync", {"text": "hi"}, "d1"))[1]["text"] == "Hello."
            assert await calls(url, "sync", {"text": "hi"}, "d1") == (
                200,
                {"status": "duplicate", "message_id": "d1", "text": "Hello."},
            )
            assert (await calls(url, "posted", {"text": "hi"}, "d2"))[0] == 202
            async with asyncio.timeout(PATIENCE_S):
                while not got:
                    await asyncio.sleep(0.05)
            assert json.loads(got[0][1])["text"] == "Posted."
            assert (await calls(url, "elsewhere", {"text": "hi"}, "d3"))[0] == 202
            assert await file_in(drop / "out" / "ann") == "Moved."
            (drop / "in" / "bob").mkdir(parents=True)
            (drop / "in" / "bob" / "m.txt").write_text("hello")
            assert await file_in(drop / "out" / "bob") == "Dropped."
            assert len(server.requests) == 4
            # Said by hand, through the running process.
            code, out, err = await callboard(program.home, "send", "file_drop:carl", "By hand", env=env)
            assert (code, await file_in(drop / "out" / "carl")) == (0, "By hand"), err
            assert out.strip().endswith(".md")
            picture = tmp_path / "plot.png"
            picture.write_bytes(b"\x89PNG and more")
            code, _, err = await callboard(
                program.home, "send", "file_drop:eve", "See", "--file", str(picture), env=env
            )
            assert (code, await file_in(drop / "out" / "eve")) == (0, "See"), err
            assert pictures_in(drop / "out" / "eve") == [b"\x89PNG and more"]
            code, _, err = await callboard(program.home, "send", "nowhere:1", "x", env=env)
            assert (code, "names nothing" in err) == (2, True)
            code, _, err = await callboard(program.home, "send", "webhook:posted", "And this", env=env)
            assert (code, json.loads(got[-1][1])["text"]) == (0, "And this"), err
        # And without one.
        code, _, err = await callboard(program.home, "send", "file_drop:dora", "Alone", env=env)
        assert (code, await file_in(drop / "out" / "dora")) == (0, "Alone"), err


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_turn_without_an_answer_is_a_failure_to_who_waits_and_to_who_is_called(
    isolation: str, tmp_path: Path
) -> None:
    async with ModelServer() as server, taking_answers() as (answer_url, got):
        both = {name: route for name, route in routes(answer_url).items() if name != "elsewhere"}
        both["asks"] = {**both["sync"], "prompt": "/usage"}
        options = {"listen": "127.0.0.1:0", "routes": both}
        webhook = {"isolation": isolation, "options": options}
        settings = {**scripted(server.base_url), "platforms": {"webhook": webhook}}
        env = {"CALLBOARD_WEBHOOK_SECRET": SECRET}
        async with Program(tmp_path / "home", settings, env=env) as program:
            url = await listens_at(program)
            server.will(Fail(400, {"error": {"message": "not like this"}}), Say("Hello."))
            for _ in range(2):
                code, said = await calls(url, "sync", {"text": "hi"}, "d1")
                assert (code, said["status"], said["code"]) == (502, "failed", "invalid_request")
                assert said["error"]
                assert len(server.requests) == 1
            code, said = await calls(url, "asks", {"text": "hi"}, "d2")
            assert (code, said["status"]) == (200, "accepted"), "a command's answer is one"
            code, said = await calls(url, "sync", {"text": "hello"}, "d3")
            assert (code, said["text"]) == (200, "Hello.")
            server.will(Fail(400, {"error": {"message": "not like this"}}), Say("Posted."))
            for delivery in ("d4", "d5"):
                assert (await calls(url, "posted", {"text": f"hi {delivery}"}, delivery))[0] == 202
            async with asyncio.timeout(PATIENCE_S):
                while len(got) < 2:
                    await asyncio.sleep(0.05)
    posted = [json.loads(body) for _, body in got]
    assert [each["code"] for each in posted] == ["invalid_request", None]
    assert posted[1]["text"] == "Posted."


async def test_added_by_the_command_line_it_is_ready_to_be_called(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ModelServer() as server:
        home.mkdir()
        (home / "callboard.yaml").write_text(yaml.safe_dump(scripted(server.base_url)))
        code, out, err = await callboard(
            home,
            "platform",
            "add",
            "webhook",
            "--yes",
            "-o",
            "listen=127.0.0.1:0",
            "-o",
            "routes.main.signature=token",
        )
        assert code == 0, err
        assert "CALLBOARD_WEBHOOK_SECRET" in out
        whole = yaml.safe_load((home / "callboard.yaml").read_text())
        secret = (home / "callboard.env").read_text().rpartition("=")[2].strip()
        server.will(Say("It works."))
        async with Program(home, whole) as program:
            url = await listens_at(program)
            headers = {"Authorization": f"Bearer {secret}"}
            async with (
                aiohttp.ClientSession() as http,
                http.post(f"{url}/hooks/main", json={"text": "hi"}, headers=headers) as response,
            ):
                assert (response.status, (await response.json())["text"]) == (200, "It works.")
            assert secret not in json.dumps(server.requests[0].body)
            code, out, _ = await callboard(home, "doctor")
            assert "ok    platform webhook: can be connected." in out
            assert "route main at /hooks/main, token; answers go to the caller" in out
        assert secret not in (home / "logs" / "callboard.log").read_text()


async def test_what_was_acknowledged_is_answered_also_after_a_kill_and_once(tmp_path: Path) -> None:
    env = {"CALLBOARD_WEBHOOK_SECRET": SECRET}
    async with ModelServer() as server, taking_answers() as (answer_url, got):
        options: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "routes": routes(answer_url),
            "idempotency_key": True,
        }
        options["routes"]["posted"]["session"] = "{payload.n}"
        settings = {**scripted(server.base_url), "platforms": {"webhook": {"options": options}}}
        async with Program(tmp_path / "home", settings, env=env) as program:
            url = await listens_at(program)
            each = [{"text": f"number {n}", "n": n} for n in range(40)]
            taken = await asyncio.gather(
                *(calls(url, "posted", payload, f"d{payload['n']}") for payload in each)
            )
            assert {status for status, _ in taken} == {202}
            await program.kill()
            (program.home / "logs" / "callboard.log").unlink()
            await program.start()
            url = await listens_at(program)
            # The service knows nothing of it, and calls again.
            again = await asyncio.gather(
                *(calls(url, "posted", payload, f"d{payload['n']}") for payload in each)
            )
            assert {status for status, _ in again} == {200}
            async with asyncio.timeout(PATIENCE_S):
                while len({json.loads(body)["reply_to"] for _, body in got}) < 40:
                    await asyncio.sleep(0.05)
    by_key = {headers["Idempotency-Key"]: json.loads(body) for headers, body in got}
    answered = [said["reply_to"] for said in by_key.values()]
    assert sorted(answered) == sorted(f"d{n}" for n in range(40))
    assert all(f"number {said['session']}" in said["text"] for said in by_key.values())
