"""Matrix: rooms on any homeserver, over its client API. The library is imported when an account connects."""

from importlib.util import find_spec

from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.loading import LoadedEdge
from actors.gateway.platforms.matrix.options import CAPABILITIES, LIMITS, MatrixOptions, shape
from actors.gateway.platforms.matrix.render import counted
from actors.gateway.registry import Finding, PlatformEntry, Question
from messages.delivery import Post


def _edge(options: MatrixOptions, context: EdgeContext) -> Edge:
    return LoadedEdge("actors.gateway.platforms.matrix.edge", "MatrixEdge", options, context)


async def _standalone(options: MatrixOptions, post: Post) -> str:
    from actors.gateway.platforms.matrix.edge import standalone  # noqa: PLC0415 the library comes with it

    return await standalone(options, post)


async def _examine(options: MatrixOptions, context: EdgeContext) -> tuple[Finding, ...]:
    from actors.gateway.platforms.matrix.examine import examine  # noqa: PLC0415 the same

    return await examine(options, context)


def _check() -> str:
    return "" if find_spec("nio") is not None else "the package matrix-nio is not installed."


PLATFORM = PlatformEntry(
    name="matrix",
    title="Matrix",
    factory=_edge,
    config=MatrixOptions,
    limits=LIMITS,
    capabilities=CAPABILITIES,
    shape=shape,
    render=lambda _: counted,
    check=_check,
    install_hint="pip install matrix-nio",
    home_variable="CALLBOARD_MATRIX_HOME",
    prompt_hint=(
        "This is Matrix: Markdown is shown, tables and code blocks too. People write commands with `!`."
    ),
    standalone=_standalone,
    examine=_examine,
    first_steps=(
        "Register an account for me on your homeserver, as for a person (in Element: *Create account*). "
        "Then log in with it once, and copy its access token: *Settings → Help & About → Advanced*. "
        "Close that window without logging out: a logout makes the token worthless."
    ),
    questions=(
        Question(
            "homeserver",
            "Address of the homeserver",
            "https://… of the server's client API; Element shows it under *Help & About*",
            default="https://matrix.org",
        ),
        Question(
            "access_token",
            "Access token",
            "Element → Settings → Help & About → Advanced",
            "MATRIX_ACCESS_TOKEN",
        ),
    ),
)
