"""E-mail: any mailbox, by IMAP and SMTP. The libraries are imported when an account connects."""

from importlib.util import find_spec

from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.loading import LoadedEdge
from actors.gateway.platforms.email.options import CAPABILITIES, LIMITS, EmailOptions, shape
from actors.gateway.registry import Finding, PlatformEntry, Question
from messages.delivery import Post


def _edge(options: EmailOptions, context: EdgeContext) -> Edge:
    return LoadedEdge("actors.gateway.platforms.email.edge", "EmailEdge", options, context)


async def _standalone(options: EmailOptions, post: Post) -> str:
    from actors.gateway.platforms.email.edge import standalone  # noqa: PLC0415 the libraries come with it

    return await standalone(options, post)


async def _examine(options: EmailOptions, context: EdgeContext) -> tuple[Finding, ...]:
    from actors.gateway.platforms.email.examine import examine  # noqa: PLC0415 the same

    return await examine(options, context)


def _check() -> str:
    missing = [name for name in ("imapclient", "aiosmtplib") if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}." if missing else ""


PLATFORM = PlatformEntry(
    name="email",
    title="E-mail",
    factory=_edge,
    config=EmailOptions,
    limits=LIMITS,
    capabilities=CAPABILITIES,
    shape=shape,
    check=_check,
    install_hint="pip install IMAPClient aiosmtplib",
    home_variable="CALLBOARD_EMAIL_HOME",
    prompt_hint="This is e-mail: one whole answer for each mail, as a letter. Markdown is shown, tables too.",
    standalone=_standalone,
    examine=_examine,
    first_steps=(
        "Make a mailbox for me alone: I answer what comes in. Most providers want an *app password* for "
        "programs (Google: *Account → Security → App passwords*; it needs two-step verification), and some "
        "want IMAP switched on first."
    ),
    questions=(
        Question("address", "Address of the mailbox", "What people will write to: assistant@example.org"),
        Question(
            "password", "Password of the mailbox", "The app password, where there is one", "EMAIL_PASSWORD"
        ),
        Question("imap_host", "IMAP server", "Your provider's help pages, under *IMAP*: imap.example.org"),
        Question("smtp_host", "SMTP server", "The same page, under *SMTP* or *outgoing*: smtp.example.org"),
    ),
)
