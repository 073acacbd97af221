"""Which model answers: what is configured, what is in the environment, what runs here, and honest words."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.session.models.directory import ModelDirectory
from actors.session.models.discovery import Server, chat_models, discover, listed
from actors.session.models.endpoints import WELL_KNOWN, endpoints, window_of, without_password
from actors.session.models.local import LOCAL_REF, installed
from actors.session.models.port import ModelCallError
from messages.model import FailureKind, ModelRef
from messages.settings import Settings
from tests.actors.session.models.wires import request, text_of, user
from tests.counterparts.model_server import Hang, ModelServer
from tests.fakes.clock import ManualClock

NOWHERE = (Server("ollama", 9),)


def directory(home: Path, env: dict[str, str] | None = None, **settings: Any) -> ModelDirectory:
    return ModelDirectory(Settings.model_validate(settings), env or {}, ManualClock(), home, print)


def chosen(home: Path, env: dict[str, str] | None = None, **settings: Any) -> str:
    ref = directory(home, env, **settings).choose(None)
    return f"{ref.provider}/{ref.name}"


ACME = {"acme": {"base_url": "http://127.0.0.1:9/v1"}}


@pytest.mark.parametrize(
    ("env", "settings", "expected"),
    [
        ({"OPENAI_API_KEY": "k"}, {}, "openai/gpt-5.4-mini"),
        ({"ANTHROPIC_API_KEY": "k"}, {}, "anthropic/claude-sonnet-5-5"),
        ({"OPENROUTER_API_KEY": "k", "OPENAI_API_KEY": " "}, {}, "openrouter/openrouter/auto"),
        ({"GOOGLE_API_KEY": "k"}, {}, "gemini/gemini-flash-latest"),
        ({"OPENAI_API_KEY": "k"}, {"model": {"name": "gpt-9"}}, "openai/gpt-9"),
        (
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
            {"model": {"provider": "anthropic"}},
            "anthropic/claude-sonnet-5-5",
        ),
        (
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
            {"model": {"name": "anthropic/claude-x"}},
            "anthropic/claude-x",
        ),
        ({"OPENAI_API_KEY": "k"}, {"providers": ACME, "model": {"name": "a-1"}}, "acme/a-1"),
        ({}, {"providers": ACME, "model": {"provider": "acme", "name": "a-1"}}, "acme/a-1"),
        ({"OPENAI_API_KEY": "k"}, {"providers": ACME}, "openai/gpt-5.4-mini"),
        ({}, {"model": {"provider": "local"}}, "local/smollm2-135m-instruct"),
    ],
)
def test_which_model_answers(
    tmp_path: Path, env: dict[str, str], settings: dict[str, Any], expected: str
) -> None:
    assert chosen(tmp_path, env, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": {"provider": "nobody"}}, "nobody"),
        ({"model": {"name": "gpt-9"}}, "gpt-9"),
        ({"providers": ACME, "model": {"provider": "acme"}}, "model.name"),
        ({"model": {"provider": "openai"}}, "openai"),
    ],
)
def test_where_none_can_answer_it_says_what_to_do(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ModelCallError) as caught:
        directory(tmp_path, {}, **settings).choose(None)
    failure = caught.value.failure
    assert failure.kind is FailureKind.NO_MODEL
    assert said in failure.remedy


def test_a_wanted_model_of_an_unknown_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelCallError) as caught:
        directory(tmp_path).choose(ModelRef(provider="gone", name="m"))
    assert caught.value.failure.kind is FailureKind.NO_MODEL


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("anthropic/claude-x", "anthropic/claude-x"),
        ("anthropic", "anthropic/claude-sonnet-5-5"),
        ("gpt-9", "openai/gpt-9"),
        (" gpt-9 ", "openai/gpt-9"),
        ("claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("acme/a/b", "acme/a/b"),
    ],
)
def test_what_a_person_types(tmp_path: Path, typed: str, expected: str) -> None:
    env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    ref = directory(tmp_path, env, providers=ACME).resolve(typed)
    assert f"{ref.provider}/{ref.name}" == expected


@pytest.mark.parametrize("typed", ["", "two words", "nobody/x", "x" * 300])
def test_what_nobody_can_mean_names_what_is_known(tmp_path: Path, typed: str) -> None:
    with pytest.raises(ValueError, match=r"gpt-5\.4-mini"):
        directory(tmp_path, {"OPENAI_API_KEY": "k"}).resolve(typed)


def test_fallbacks_are_read_and_unknown_ones_left_out(tmp_path: Path) -> None:
    models = directory(
        tmp_path, {"OPENAI_API_KEY": "k"}, providers=ACME, model={"fallbacks": ["acme/a/1", "gone/x", "odd"]}
    )
    assert models.fallbacks() == (ModelRef(provider="acme", name="a/1"),)
    assert ModelRef(provider="acme", name="a/1") in models.known()


def test_context_windows(tmp_path: Path) -> None:
    models = directory(
        tmp_path, providers={"acme": {"base_url": "http://127.0.0.1:9/v1", "context_window": 4096}}
    )
    assert models.context_window(ModelRef(provider="acme", name="x")) == 4096
    assert models.context_window(LOCAL_REF) == 8192
    assert window_of("openai/gpt-4.1-mini") == 1_047_576
    assert window_of("gpt-4") == 8192
    assert window_of("never-heard-of") == 128_000


def test_the_environments_key_goes_to_its_own_provider_only() -> None:
    env = {"OPENAI_API_KEY": "sk-secret"}
    there = endpoints(
        Settings.model_validate({"providers": {"openai": {"base_url": "http://elsewhere/v1"}}}), env
    )
    assert there["openai"].key is None
    own = endpoints(Settings.model_validate({"providers": {"openai": {"context_window": 9000}}}), env)
    assert own["openai"].key == "sk-secret"


def test_a_configured_well_known_provider_needs_only_its_name() -> None:
    found = endpoints(Settings.model_validate({"providers": {"anthropic": {"api_key": "k"}}}), {})
    assert found["anthropic"].protocol == "anthropic-messages"


def test_every_well_known_provider_is_whole() -> None:
    for provider in WELL_KNOWN:
        assert provider.model
        assert provider.base_url is None or provider.base_url.startswith("https://")


def test_no_password_is_in_an_address() -> None:
    assert without_password("https://me:secret@host:1/v1?key=secret") == "https://host:1/v1"


# ------------------------------------------------------------------- servers on this machine


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(models=("nomic-embed-text", "llama-x", "qwen-x")) as made:
        yield made


async def test_a_server_on_this_machine_is_found_and_answers(tmp_path: Path, server: ModelServer) -> None:
    models = directory(tmp_path)
    await models.discover((Server("ollama", server.port), Server("lmstudio", 9)))
    ref = models.choose(None)
    assert ref == ModelRef(provider="ollama", name="llama-x")
    assert ModelRef(provider="ollama", name="qwen-x") in models.known()
    assert models.resolve("qwen-x") == ModelRef(provider="ollama", name="qwen-x")
    reply = await models.ask(request(user("hi"), model=ref), lambda _: None)
    assert text_of(reply) == "echo: hi"
    await models.close()


async def test_it_is_not_looked_for_when_something_is_configured(tmp_path: Path, server: ModelServer) -> None:
    models = directory(tmp_path, {"OPENAI_API_KEY": "k"})
    await models.discover((Server("ollama", server.port),))
    assert models.choose(None).provider == "openai"
    assert {ref.provider for ref in models.known()} <= {"openai", "local"}


async def test_it_may_be_asked_for_by_name(tmp_path: Path, server: ModelServer) -> None:
    models = directory(tmp_path, {"OPENAI_API_KEY": "k"}, model={"provider": "ollama"})
    await models.discover((Server("ollama", server.port),))
    assert models.choose(None) == ModelRef(provider="ollama", name="llama-x")


async def test_a_configured_provider_without_a_name_is_asked_for_its_models(
    tmp_path: Path, server: ModelServer
) -> None:
    models = directory(tmp_path, providers={"acme": {"base_url": server.base_url}})
    await models.discover(NOWHERE)
    assert models.choose(None) == ModelRef(provider="acme", name="llama-x")
    await models.close()


@pytest.mark.skipif(not installed(), reason="the embedded model's packages are not installed")
async def test_where_nothing_runs_the_embedded_model_answers(tmp_path: Path) -> None:
    models = directory(tmp_path)
    await models.discover(NOWHERE)
    assert models.choose(None) == LOCAL_REF
    await models.close()


async def test_other_programs_at_those_ports_are_no_model_servers() -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop())
        await writer.drain()
        writer.close()

    body = json.dumps({"data": [{"id": "text-embedding-3"}]}).encode()
    answers = [
        b"HTTP/1.0 200 OK\r\n\r\n<html>hello</html>",
        b"HTTP/1.0 404 Not Found\r\n\r\n{}",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + body,
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 20_000,
    ]
    listening = await asyncio.start_server(odd, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        for _ in range(len(answers)):
            assert await discover((Server("x", port),)) == ()


def test_what_cannot_chat_is_left_out() -> None:
    assert chat_models(("bge-m3", "whisper-1", "llama3", "Qwen3-Embedding")) == ("llama3",)


@pytest.mark.parametrize("body", [None, [], {"data": None}, {"data": [None, {"id": 5}, {"id": ""}]}])
def test_odd_lists(body: Any) -> None:
    assert listed(body) == ()


async def test_many_calls_at_once_are_really_at_once(tmp_path: Path, server: ModelServer) -> None:
    # The SDKs' transport would stop at 100 connections unless told otherwise.
    models = directory(tmp_path, providers={"acme": {"base_url": server.base_url}}, model={"name": "m"})
    server.will(*(Hang("hello ") for _ in range(300)))
    tasks = [
        asyncio.create_task(
            models.ask(request(user("hi"), model=ModelRef(provider="acme", name="m")), lambda _: None)
        )
        for _ in range(300)
    ]
    async with asyncio.timeout(60):
        await server.asked(300)
        assert server.in_flight == 300
        server.release()
        await asyncio.gather(*tasks)
    await models.close()
