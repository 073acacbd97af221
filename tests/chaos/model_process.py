"""The scripted model of a chaos run, in its own process: what it answers follows from what it is asked.

`NAME say` is answered with `answer NAME`; `tool` first appends NAME to a file with the
terminal and then answers; `read` lists a folder first; `slow` takes its time between
words; `long` is longer than a post of the platform. Several names are answered together.

Prints `listening on URL`, then one line for each question it gets.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.plan import ID
from tests.counterparts.model_server import Call, ModelServer, Reply, Request, Say, text_of

EFFECTS = "effects.txt"
"""In the workspace: a line for each tool that has had its effect."""


def reply_to(request: Request) -> Reply:
    """Answer what was said since the model's last word to people."""
    messages = request.body.get("messages", [])
    asked, done = _open_questions(messages)
    names = list(dict.fromkeys(ID.findall(asked)))
    called = json.dumps([message.get("tool_calls") for message in messages])
    # Nothing is done a second time, also when the first time was set aside: its outcome may be unknown.
    doers = [name for name in names if f"{name} tool" in asked and f"{name} >>" not in called]
    readers = [name for name in names if f"{name} read" in asked]
    if not done and (doers or readers):
        calls: list[tuple[str, dict[str, Any]]] = [("list_files", {"path": "."})] if readers else []
        # The mark is one write; the wait behind it leaves time to die between effect and end.
        calls += [
            ("terminal", {"command": f"printf '%s\\n' {name} >> {EFFECTS}; sleep 0.1"}) for name in doers
        ]
        return Call(*calls, ids=[f"call-{n}-{names[-1]}" for n in range(len(calls))])
    text = f"answer {' '.join(names)}"
    if " long" in asked:
        text += "\n\n" + "\n".join(f"line {n} of the long answer {names[-1]}" for n in range(40))
    return Say(text, delay_s=0.05 if " slow" in asked and len(text) < 200 else 0.0)


def _open_questions(messages: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return what people said since the last answer, and whether tools have run for it already."""
    asked: list[str] = []
    done = False
    for message in reversed(messages):
        match message.get("role"):
            case "user":
                asked.append(text_of(message.get("content")))
            case "tool":
                done = True
            case "assistant" if not message.get("tool_calls"):
                break
            case _:
                pass
    return "\n".join(reversed(asked)), done


async def main() -> None:
    logging.getLogger("aiohttp.server").disabled = True  # clients that are killed in mid-answer are the point
    server = ModelServer()

    def otherwise(request: Request) -> Reply:
        print("asked", flush=True)  # noqa: T201 the run listens
        if len(server.requests) > 100:
            server.requests.clear()  # a long run asks thousands of times
        return reply_to(request)

    server.otherwise = otherwise
    async with server:
        print(f"listening on {server.base_url}", flush=True)  # noqa: T201 the run listens
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the run is gone


if __name__ == "__main__":
    asyncio.run(main())
