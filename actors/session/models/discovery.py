"""Model servers on this machine: Ollama, LM Studio, llama.cpp. Asked on loopback, quickly, all at once."""

import asyncio
import contextlib
import json
from dataclasses import dataclass

from actors.session.models.endpoints import Endpoint
from messages.settings import ProviderSettings

TIMEOUT_S = 0.3
MOST_ANSWER = 1_000_000


@dataclass(frozen=True, slots=True)
class Server:
    """A program that listens at a port of its own."""

    name: str
    port: int


SERVERS = (Server("ollama", 11434), Server("lmstudio", 1234), Server("llamacpp", 8080))

_NO_CHAT = ("embed", "bge-", "rerank", "whisper", "tts", "clip", "moderation", "minilm", "ocr", "diffusion")


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answered, with the chat models that it lists."""

    endpoint: Endpoint
    models: tuple[str, ...]


async def discover(servers: tuple[Server, ...] = SERVERS) -> tuple[Found, ...]:
    """Return the servers that run and list a chat model, in the order of `servers`."""
    found = await asyncio.gather(*(_ask(server) for server in servers))
    return tuple(one for one in found if one is not None)


def chat_models(names: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out what cannot chat, by its name."""
    return tuple(name for name in names if not any(word in name.lower() for word in _NO_CHAT))


def listed(body: object) -> tuple[str, ...]:
    """Read the answer of `/v1/models`; () when it is something else."""
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        return ()
    names = (item.get("id") for item in data if isinstance(item, dict))
    return tuple(name for name in names if isinstance(name, str) and name)


async def _ask(server: Server) -> Found | None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            body = await _get(server.port, "/v1/models")
    except (TimeoutError, OSError, ValueError, RecursionError, asyncio.IncompleteReadError):
        return None
    models = chat_models(listed(body))
    if not models:
        return None
    base_url = f"http://127.0.0.1:{server.port}/v1"
    endpoint = Endpoint(
        name=server.name,
        protocol="openai-chat",
        base_url=base_url,
        key=None,
        key_setting=f"`providers.{server.name}.api_key` in callboard.yaml",
        limits=ProviderSettings(base_url=base_url),
        default_model=models[0],
    )
    return Found(endpoint, models)


async def _get(port: int, path: str) -> object:
    """One HTTP/1.0 request, so that no HTTP library is needed to find that nothing listens."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        request = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\r\n"
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200" not in head.split(b"\r\n", 1)[0]:
            return None
        content = b""
        while len(content) < MOST_ANSWER and (chunk := await reader.read(65536)):
            content += chunk
            with contextlib.suppress(ValueError):
                whole: object = json.loads(content)
                return whole
        return None
    finally:
        writer.close()
