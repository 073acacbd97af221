"""What `callboard doctor` says about a Matrix account."""

from importlib.util import find_spec

from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.keeping import Keeping
from actors.gateway.platforms.matrix.options import MatrixOptions
from actors.gateway.platforms.matrix.session import opened, path
from actors.gateway.registry import Finding
from messages.delivery import ProblemKind

INSTALL_KEYS = "pip install 'matrix-nio[e2e]'"


async def examine(options: MatrixOptions, context: EdgeContext) -> tuple[Finding, ...]:
    """Log in, and look at the account. Raises EdgeError when the server cannot be reached."""
    plain = options.model_copy(update={"encryption": False})
    try:
        async with opened(plain, Keeping.of(context), context.clock) as session:
            found = [Finding(True, f"The login is good: we are {session.user_id}.")]
            rooms = (await session.call("GET", path("joined_rooms"))).get("joined_rooms")
            count = len(rooms) if isinstance(rooms, list) else 0
    except EdgeError as error:
        if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
            raise
        return (Finding(False, "The login fails.", error.problem.detail),)
    if count:
        found.append(Finding(True, f"We are in {count} room{'s' if count > 1 else ''}."))
    elif options.accept_invites:
        found.append(Finding(True, f"We are in no room yet: invite {session.user_id}."))
    else:
        found.append(
            Finding(False, "We are in no room.", "Invite us and set `accept_invites: true`, or join by hand.")
        )
    return (*found, *_encryption(options))


def _encryption(options: MatrixOptions) -> tuple[Finding, ...]:
    if not options.encryption:
        return (Finding(True, "Encrypted rooms are not read (`encryption: false`)."),)
    if find_spec("vodozemac") is None:
        return (Finding(False, "The library for encryption is not installed.", INSTALL_KEYS),)
    return (Finding(True, "Encrypted rooms are read; our device is not verified by anybody."),)
