"""Webhooks: services call us, signed, and the answer goes where the route says. See docs/platforms/webhook.md."""

from dataclasses import replace

from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.platforms.webhook.options import WebhookOptions
from actors.gateway.registry import Capabilities, Finding, Limits, PlatformEntry, Question
from messages.delivery import Post
from messages.gateway import Origin


def _edge(options: WebhookOptions, context: EdgeContext) -> Edge:
    from actors.gateway.platforms.webhook.edge import WebhookEdge  # noqa: PLC0415 it brings an HTTP server

    return WebhookEdge(options, context)


def _shape(options: WebhookOptions) -> tuple[Limits, Capabilities]:
    return LIMITS, replace(CAPABILITIES, idempotency_key=options.idempotency_key)


def _target_of(options: WebhookOptions, origin: Origin) -> str:
    route = options.routes.get(origin.chat or "")
    return "origin" if route is None else route.target


async def _examine(options: WebhookOptions, context: EdgeContext) -> tuple[Finding, ...]:
    from actors.gateway.platforms.webhook.examine import examine  # noqa: PLC0415 for the check alone

    return await examine(options, context)


async def _standalone(options: WebhookOptions, post: Post) -> str:
    from actors.gateway.platforms.webhook.examine import post_alone  # noqa: PLC0415 without a process only

    return await post_alone(options, post)


LIMITS = Limits(200_000)
CAPABILITIES = Capabilities(threads=True, splits_itself=True, says_refusals=True)

PLATFORM = PlatformEntry(
    name="webhook",
    title="Webhooks",
    factory=_edge,
    config=WebhookOptions,
    limits=LIMITS,
    capabilities=CAPABILITIES,
    shape=_shape,
    home_variable="CALLBOARD_WEBHOOK_HOME",
    pii_safe=True,
    prompt_hint="You answer an event of a program; nobody may be there who answers questions.",
    standalone=_standalone,
    checks_speakers=True,
    target_of=_target_of,
    examine=_examine,
    questions=(
        Question(
            "routes.main.secret",
            "Secret that signs the calls",
            where="The same goes into the service that calls; nothing entered: one is made",
            variable="CALLBOARD_WEBHOOK_SECRET",
            made=True,
        ),
        Question(
            "routes.main.signature",
            "How the service signs (github, gitlab, slack, standard, stripe, hmac-sha256, token)",
            optional=True,
            default="hmac-sha256",
        ),
        Question(
            "routes.main.sync",
            "Does the caller wait for the answer, as the response (true or false)",
            optional=True,
            default="true",
        ),
        Question("listen", "Address to listen on", optional=True, default="127.0.0.1:8640"),
    ),
    first_steps=(
        "Nothing is to be made beforehand. Services call `http://HOST:8640/hooks/main`; a service on the"
        " internet needs a way in, such as a reverse proxy with TLS before that port."
    ),
)
