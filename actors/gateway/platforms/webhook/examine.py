"""What can be said of the webhook's configuration without a call, and posting without a listener."""

import asyncio
import contextlib

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.webhook.answers import can_connect, new_http, post_answer
from actors.gateway.platforms.webhook.options import WebhookOptions
from actors.gateway.registry import Finding
from messages.delivery import Post, ProblemKind

PATIENCE_S = 3.0


async def examine(options: WebhookOptions, context: EdgeContext) -> tuple[Finding, ...]:
    """Look whether the address can be listened on, and whether somebody takes the answers. Posts nothing."""
    found = [await _listener(options)]
    for name, route in options.routes.items():
        where = f"route {name} at /hooks/{name}, {route.signature}"
        if route.answer_url is not None and (why := await can_connect(route.answer_url)):
            remedy = "Start what takes the answers, or correct answer_url."
            found.append(
                Finding(ok=False, what=f"{where}: its answer_url takes no connection: {why}", remedy=remedy)
            )
        else:
            found.append(Finding(ok=True, what=f"{where}; answers go to {_answers_to(name, options)}"))
    del context
    return tuple(found)


def _answers_to(name: str, options: WebhookOptions) -> str:
    route = options.routes[name]
    if route.target != "origin":
        return route.target
    if route.sync:
        return "the caller, who waits" + (", else to answer_url" if route.answer_url else "")
    return "answer_url" if route.answer_url else "the history only"


async def _listener(options: WebhookOptions) -> Finding:
    host, port = options.address
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection("127.0.0.1" if host in _ANY else host, port)
        writer.close()
        return Finding(ok=True, what=f"{options.listen} takes connections already (by us, if we run)")
    try:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    except OSError as error:
        what = f"{options.listen} cannot be listened on: {error.strerror or error}"
        return Finding(ok=False, what=what, remedy="Set `listen` to a free address of this machine.")
    server.close()
    await server.wait_closed()
    return Finding(ok=True, what=f"{options.listen} is free")


_ANY = ("0.0.0.0", "::", "")  # noqa: S104 only compared


async def post_alone(options: WebhookOptions, post: Post) -> str:
    """Post to a route's answer_url without a listener. Raises EdgeError."""
    name = post.place.chat or ""
    route = options.routes.get(name)
    if route is None:
        raise EdgeError(ProblemKind.TARGET_GONE, f"there is no route {name!r}")
    if route.answer_url is None:
        raise EdgeError(ProblemKind.REFUSED, f"the route {name!r} has no answer_url to post to")
    async with new_http(options.answer_timeout_s) as http:
        return await post_answer(http, name, route, post, account="main", clock=WallClock())
