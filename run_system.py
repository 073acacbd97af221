"""Callboard's command line, and the only reader of the environment.

`callboard …` and `python run_system.py …` are the same. Nothing heavy is imported
before a command needs it: `callboard --help` answers at once. The file is long because
it holds every command's options and help, and nothing else: one place tells the whole
command line; what a command does is in `actors/console/cli/`.
"""

# ruff: noqa: PLC0415, T201, TID251 (imports when a command needs them; this prints; this reads the environment)

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from actors.console.cli.invocation import Invocation
    from messages.access import AnyWish

VERSION = "0.1.0"

Home = Annotated[
    Path | None,
    typer.Option("--home", metavar="FOLDER", help="Data folder; else CALLBOARD_HOME, else the user's own."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file; else callboard.yaml in the data folder."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(
    name="callboard",
    help="An actor-model runtime for chat agents: one actor per conversation, nothing accepted is ever lost.",
    epilog=(
        "Start here:  callboard chat   talks in this terminal, with no key and no configuration.  "
        "callboard run   serves the web page and the HTTP API.  "
        "Exit codes:  0 done, 1 failed, 2 wrong command line or settings, 3 not running, 4 cannot start, "
        "130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
sessions_app = typer.Typer(help="List, show, export and delete conversations.", no_args_is_help=True)
store_app = typer.Typer(
    help="Look at the database, copy it, put a copy back, rewrite it, export it.", no_args_is_help=True
)
config_app = typer.Typer(help="Show and check the settings.", no_args_is_help=True)
app.add_typer(sessions_app, name="sessions")
app.add_typer(store_app, name="store")
app.add_typer(config_app, name="config")
letters_app = typer.Typer(
    help="Messages and replies that were given up: look, retry, drop.", no_args_is_help=True
)
app.add_typer(letters_app, name="dead-letters")
platform_app = typer.Typer(help="Connect chat platforms, and see how they do.", no_args_is_help=True)
app.add_typer(platform_app, name="platform")
access_app = typer.Typer(help="Who may talk to Callboard, and where; changed live.", no_args_is_help=True)
app.add_typer(access_app, name="access")
Account = Annotated[str, typer.Argument(metavar="PLATFORM", help="platform, or platform/account.")]
AnyAccount = Annotated[
    str, typer.Argument(metavar="PLATFORM", help="platform, or platform/account; nothing: all.")
]
LetterNumber = Annotated[int, typer.Argument(metavar="NUMBER", help="As `dead-letters list` shows it.")]


class _Given:
    """What was given before the command's name: `callboard --home X run` is `callboard run --home X`."""

    home: Path | None = None
    config: Path | None = None


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"callboard {VERSION}")
        raise typer.Exit


@app.callback()
def _global_options(
    home: Home = None,
    config: Config = None,
    version: Annotated[  # noqa: ARG001 its callback does it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    _Given.home, _Given.config = home, config


@app.command(epilog="Example:  callboard run --home ./data   then open the link that it prints.")
def run(home: Home = None, config: Config = None) -> None:
    """Serve the web page, the HTTP API and every chat until Ctrl-C or SIGTERM."""
    from actors.console.cli.serve import serve

    _finish(home, config, serve)


@app.command(epilog="Example:  callboard chat --session work   goes on with the conversation called work.")
def chat(
    home: Home = None,
    config: Config = None,
    session: Annotated[str, typer.Option("--session", "-s", help="Names the conversation.")] = "main",
) -> None:
    """Talk in this terminal: with the running process, or with one that ends with the chat."""
    from actors.console.cli.chat import chat as talk

    _finish(home, config, lambda invocation: talk(invocation, session))


@app.command(
    epilog=(
        "Examples:  callboard ask 'What is the time in Lima?'   "
        "git diff | callboard ask -   "
        "callboard ask --json --session work 'and tomorrow?' | jq -r .text"
    )
)
def ask(
    text: Annotated[str, typer.Argument(help="The question; - reads it from the input.")],
    home: Home = None,
    config: Config = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Go on with this conversation; else a new one.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one object: text, status, session_key, turn, model.")
    ] = False,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Print the answer while it is written, or only the final text. Default: stream on a terminal.",
        ),
    ] = None,
) -> None:
    """Ask once: the answer on standard output, progress on standard error. Tools that need a yes are refused."""
    from actors.console.cli.ask import Question
    from actors.console.cli.ask import ask as ask_once

    words = sys.stdin.read() if text == "-" else text
    if not words.strip():
        _fail(2, "There is no question.", "Give it in quotes, or pipe it in: echo hello | callboard ask -")
    streaming = sys.stdout.isatty() if stream is None else stream
    question = Question(words, session=session, as_json=as_json, streaming=streaming)
    _finish(home, config, lambda invocation: ask_once(invocation, question))


@app.command(epilog="Example:  callboard status --json   Exit code 3 says that nothing runs.")
def status(home: Home = None, config: Config = None, as_json: AsJson = False) -> None:
    """Say how the running process is doing."""
    from actors.console.cli.status import show_status

    _finish(home, config, lambda invocation: show_status(invocation, as_json=as_json))


@app.command(epilog="Example:  callboard doctor --ask   also lets the model answer one question.")
def doctor(
    home: Home = None,
    config: Config = None,
    ask: Annotated[bool, typer.Option("--ask", help="Also ask the model something.")] = False,
) -> None:
    """Check what Callboard needs: each line is ok, a warning or a failure, with the remedy."""
    from actors.console.cli.doctor import examine

    _finish(home, config, lambda invocation: examine(invocation, ask=ask))


@sessions_app.command("list", epilog="Example:  callboard sessions list --json")
def sessions_list(home: Home = None, config: Config = None, as_json: AsJson = False) -> None:
    """List all conversations, the latest first."""
    from actors.console.cli.sessions import list_sessions

    _finish(home, config, lambda invocation: list_sessions(invocation, as_json=as_json))


@sessions_app.command("show", epilog="Example:  callboard sessions show work")
def sessions_show(
    key: Annotated[str, typer.Argument(help="A session's key, or the name of a terminal chat.")],
    home: Home = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show one conversation."""
    from actors.console.cli.sessions import show_session

    _finish(home, config, lambda invocation: show_session(invocation, key, as_json=as_json))


@sessions_app.command("export", epilog="Example:  callboard sessions export --out ./export --format json")
def sessions_export(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the files go.")],
    keys: Annotated[list[str] | None, typer.Argument(help="Keys or names; none means all.")] = None,
    home: Home = None,
    config: Config = None,
    form: Annotated[
        Literal["md", "json", "openai", "sharegpt"],
        typer.Option("--format", "-f", help="Shape of the files."),
    ] = "md",
) -> None:
    """Write conversations as files, one each."""
    from actors.console.cli.sessions import export_sessions

    _finish(home, config, lambda invocation: export_sessions(invocation, keys or (), out, form))


@app.command(
    epilog=(
        """Examples:  callboard search 'deploy* "port 8080" -test'   callboard search --since 7d --role user 部署失败   """
        "Words must all occur; quotes make a phrase, - leaves out, * ends a beginning."
    )
)
def search(  # noqa: PLR0913, PLR0917 each is an option of the command line
    words: Annotated[list[str], typer.Argument(help="What to search for.")],
    home: Home = None,
    config: Config = None,
    platform: Annotated[str | None, typer.Option(help="Only there: discord, web and so on.")] = None,
    chat: Annotated[str | None, typer.Option(metavar="ID", help="Only in this chat.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only what this person said (id or name).")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="KEY", help="Only in this session.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 2026-03-01, or 7d, 12h.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until then; of a day, its end.")] = None,
    role: Annotated[
        Literal["", "user", "assistant", "command", "notice", "any"],
        typer.Option(help="Who said it. Default: user and assistant."),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many to show.")] = 10,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first, instead of the best.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the whole history. Exit code 1 says that nothing was found."""
    from actors.clock import WallClock
    from actors.console.cli.search import TimeTextError, moment, roles_of
    from actors.console.cli.search import search as search_history
    from messages.search import SearchAsked

    now = WallClock().now()
    try:
        begin = moment(since, now) if since else None
        end = moment(until, now, end=True) if until else None
    except TimeTextError as error:
        _fail(2, f"{error}.")
    asked = SearchAsked(
        words=" ".join(words),
        platform=platform,
        chat=chat,
        user=user,
        session_key=session,  # type: ignore[arg-type]
        roles=roles_of(role),
        since=begin,
        until=end,
        limit=limit,
        newest_first=newest,
    )
    _finish(home, config, lambda invocation: search_history(invocation, asked, as_json=as_json))


@letters_app.command("list", epilog="Example:  callboard dead-letters list --all")
def dead_letters_list(
    home: Home = None,
    config: Config = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were retried or dropped.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the messages and replies that were given up and wait for a decision, the newest first."""
    from actors.console.cli.dead_letters import list_letters

    _finish(home, config, lambda given: list_letters(given, everything=everything, as_json=as_json))


@letters_app.command("show", epilog="Example:  callboard dead-letters show 4711")
def dead_letters_show(
    number: LetterNumber, home: Home = None, config: Config = None, as_json: AsJson = False
) -> None:
    """Show one whole: whose, where, what, when and why."""
    from actors.console.cli.dead_letters import show_letter

    _finish(home, config, lambda given: show_letter(given, number, as_json=as_json))


@letters_app.command("retry", epilog="Example:  callboard dead-letters retry 4711")
def dead_letters_retry(number: LetterNumber, home: Home = None, config: Config = None) -> None:
    """Hand a message in again, as a new one; deliver what is missing of a reply, to the same place."""
    from actors.console.cli.dead_letters import decide_letter

    _finish(home, config, lambda given: decide_letter(given, number, "retry"))


@letters_app.command("drop", epilog="Example:  callboard dead-letters drop 4711")
def dead_letters_drop(number: LetterNumber, home: Home = None, config: Config = None) -> None:
    """Note that nothing more will be done about it; it stays in the history."""
    from actors.console.cli.dead_letters import decide_letter

    _finish(home, config, lambda given: decide_letter(given, number, "drop"))


@platform_app.command(
    "add",
    epilog=(
        "Examples:  callboard platform add   lists what there is.   callboard platform add discord   asks and connects.   "
        "callboard platform add telegram --token-stdin --yes < token.txt   asks nothing."
    ),
)
def platform_add(
    name: Annotated[
        str | None,
        typer.Argument(help="discord, slack …; NAME/ACCOUNT for a second account; nothing lists all."),
    ] = None,
    home: Home = None,
    config: Config = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Answers a question beforehand."),
    ] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the first secret that is asked for from the input.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take the defaults.")] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Try the account before it is kept.")
    ] = True,
    replace: Annotated[
        bool, typer.Option("--replace", help="Give an account that is set other options.")
    ] = False,
) -> None:
    """Connect a chat platform: what to do there, what is needed of it, a check, and how you become its owner."""
    from actors.console.cli.platform_add import Adding, add_platform

    adding = Adding(name, tuple(options or ()), token_stdin, yes, check, replace)
    _finish(home, config, lambda invocation: add_platform(invocation, adding))


@platform_app.command("list", epilog="Example:  callboard platform list --json")
def platform_list(home: Home = None, config: Config = None, as_json: AsJson = False) -> None:
    """List the accounts that the settings name, and how their connections do."""
    from actors.console.cli.platform_control import list_platforms

    _finish(home, config, lambda invocation: list_platforms(invocation, as_json=as_json))


@platform_app.command("restart", epilog="Example:  callboard platform restart discord")
def platform_restart(name: Account, home: Home = None, config: Config = None) -> None:
    """End a connection and make it anew, at once; others go on."""
    from actors.console.cli.platform_control import control_platform

    _finish(home, config, lambda invocation: control_platform(invocation, name, "restart"))


@platform_app.command("pause", epilog="Example:  callboard platform pause telegram/second")
def platform_pause(name: Account, home: Home = None, config: Config = None) -> None:
    """Disconnect, and stay so, also after a restart; what is to be said there waits."""
    from actors.console.cli.platform_control import control_platform

    _finish(home, config, lambda invocation: control_platform(invocation, name, "pause"))


@platform_app.command("resume", epilog="Example:  callboard platform resume discord")
def platform_resume(name: Account, home: Home = None, config: Config = None) -> None:
    """Connect what was paused."""
    from actors.console.cli.platform_control import control_platform

    _finish(home, config, lambda invocation: control_platform(invocation, name, "resume"))


@app.command(
    epilog=(
        "Examples:  callboard send discord:1234 'The backup is done'   "
        "date | callboard send telegram -   callboard send slack:C1:1700.01 'Look' --file plot.png   "
        "Exit code 1 says that it was not delivered."
    )
)
def send(
    target: Annotated[str, typer.Argument(help="platform, platform:chat or platform:chat:thread.")],
    text: Annotated[str, typer.Argument(help="What to say, in Markdown; - reads it from the input.")] = "",
    home: Home = None,
    config: Config = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Send this file, with the text.")] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=1, max=600, help="Seconds to wait for the receipt.")
    ] = 60.0,
) -> None:
    """Say something in a chat, through the running process or without one; wait until the platform took it."""
    from actors.console.cli.send import Sending
    from actors.console.cli.send import send as send_it

    words = sys.stdin.read() if text == "-" else text
    if not words.strip() and file is None:
        _fail(2, "There is nothing to say.", "Give a text, pipe one in (-), or name a file with --file.")
    sending = Sending(target, words, file.expanduser().absolute() if file else None, wait)
    _finish(home, config, lambda invocation: send_it(invocation, sending))


@access_app.command("list", epilog="Example:  callboard access list discord")
def access_list(
    account: AnyAccount = "", home: Home = None, config: Config = None, as_json: AsJson = False
) -> None:
    """List people, chats and servers, what holds for each, and whether it comes from the settings."""
    from actors.console.cli.access import show_access

    _finish(home, config, lambda given: show_access(given, account, as_json=as_json))


@access_app.command(
    "allow",
    epilog="Examples:  callboard access allow discord 8031   callboard access allow telegram --chat=-1001",
)
def access_allow(
    account: Account,
    user: Annotated[str | None, typer.Argument(help="A person's id on the platform.")] = None,
    home: Home = None,
    config: Config = None,
    chat: Annotated[str | None, typer.Option(metavar="ID", help="All in this chat, or CHAT:THREAD.")] = None,
    server: Annotated[str | None, typer.Option(metavar="ID", help="All in this server.")] = None,
) -> None:
    """Let a person talk to Callboard, or all in a chat or server."""
    from messages.access import AllowPlace, AllowUser

    _one_of(user, chat, server)
    if user:
        _access(home, config, AllowUser(account=account, user=user))
    elif chat:
        _access(home, config, AllowPlace(account=account, what="chat", place=chat))
    else:
        _access(home, config, AllowPlace(account=account, what="server", place=server or ""))


@access_app.command("revoke", epilog="Example:  callboard access revoke discord 8031 --block")
def access_revoke(
    account: Account,
    user: Annotated[str | None, typer.Argument(help="A person's id on the platform.")] = None,
    home: Home = None,
    config: Config = None,
    chat: Annotated[str | None, typer.Option(metavar="ID", help="This chat, or CHAT:THREAD.")] = None,
    server: Annotated[str | None, typer.Option(metavar="ID", help="This server.")] = None,
    block: Annotated[bool, typer.Option("--block", help="The person is never heard anywhere.")] = False,
) -> None:
    """Take a permission back."""
    from messages.access import RevokePlace, RevokeUser

    _one_of(user, chat, server)
    if user:
        _access(home, config, RevokeUser(account=account, user=user, block=block))
    elif chat:
        _access(home, config, RevokePlace(account=account, what="chat", place=chat))
    else:
        _access(home, config, RevokePlace(account=account, what="server", place=server or ""))


@access_app.command("role", epilog="Example:  callboard access role discord 8031 admin")
def access_role(
    account: Account,
    user: Annotated[str, typer.Argument(help="A person's id on the platform.")],
    role: Annotated[Literal["user", "admin", "owner"], typer.Argument(help="What they are to be.")],
    home: Home = None,
    config: Config = None,
) -> None:
    """Give a person another role. Admins change access and settings of chats, and approve."""
    from messages.access import AllowUser
    from messages.gateway import Role

    _access(home, config, AllowUser(account=account, user=user, role=Role(role)))


@access_app.command("chat", epilog="Example:  callboard access chat discord 1234 free")
def access_chat(
    account: Account,
    chat: Annotated[str, typer.Argument(help="A chat's id, or CHAT:THREAD.")],
    value: Annotated[
        Literal["free", "quiet", "shared", "per_user", "default"],
        typer.Argument(
            help="free: answer everything; quiet: only what is addressed; shared, per_user: whose conversation."
        ),
    ],
    home: Home = None,
    config: Config = None,
) -> None:
    """Choose how Callboard behaves in a chat."""
    from messages.access import ChooseForChat

    _access(home, config, ChooseForChat(account=account, place=chat, value=value))


@access_app.command("home", epilog="Example:  callboard access home discord 1234")
def access_home(
    account: Account,
    chat: Annotated[
        str, typer.Argument(help="A chat's id, or CHAT:THREAD; nothing: as the settings say.")
    ] = "",
    home: Home = None,
    config: Config = None,
) -> None:
    """Choose the chat for what answers nobody: reports of jobs, notices."""
    from messages.access import ChooseHome

    _access(home, config, ChooseHome(account=account, place=chat))


@access_app.command("pending", epilog="Example:  callboard access pending")
def access_pending(
    account: AnyAccount = "", home: Home = None, config: Config = None, as_json: AsJson = False
) -> None:
    """List the strangers who were given a pairing code."""
    from actors.console.cli.access import show_pending

    _finish(home, config, lambda given: show_pending(given, account, as_json=as_json))


@access_app.command("approve", epilog="Example:  callboard access approve ABCD-EFGH")
def access_approve(
    code: Annotated[str, typer.Argument(help="The code that the stranger was given.")],
    home: Home = None,
    config: Config = None,
) -> None:
    """Let in the stranger who was given this code."""
    from messages.access import ApprovePairing

    _access(home, config, ApprovePairing(code=code))


@access_app.command(
    "claim", epilog="Example:  callboard access claim discord   then write the code to the bot."
)
def access_claim(account: AnyAccount = "", home: Home = None, config: Config = None) -> None:
    """Print a one-time code; who writes it to Callboard in a direct message is its owner there."""
    from messages.access import MakeClaim

    _access(home, config, MakeClaim(account=account))


def _access(home: Path | None, config: Path | None, wish: "AnyWish") -> None:
    from actors.console.cli.access import change

    _finish(home, config, lambda given: change(given, wish))


def _one_of(*named: str | None) -> None:
    if sum(bool(each) for each in named) != 1:
        _fail(2, "Name one of: a person, --chat, --server.")


@sessions_app.command("delete", epilog="Example:  callboard sessions delete work --yes")
def sessions_delete(
    keys: Annotated[list[str], typer.Argument(help="Keys, session ids, or names of chats.")],
    home: Home = None,
    config: Config = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete conversations for good, and say what remains. What runs in them is stopped."""
    from actors.console.cli.delete import delete_sessions

    _finish(home, config, lambda invocation: delete_sessions(invocation, keys, yes=yes))


@app.command(
    epilog=(
        "Examples:  callboard query 'SELECT role, count(*) FROM messages GROUP BY role'   "
        "callboard query --plot 'SELECT day, sum(cost_usd) FROM usage_daily GROUP BY day ORDER BY day'   "
        "callboard query - --csv < report.sql   "
        'callboard query "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"'
    )
)
def query(  # noqa: PLR0913, PLR0917 each is an option of the command line
    sql: Annotated[str, typer.Argument(help="One SELECT; - reads it from the input.")],
    home: Home = None,
    config: Config = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: AsJson = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw bars: a column of labels, then numbers.")
    ] = False,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write a Parquet file.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most rows.")] = 1000,
    timeout: Annotated[float, typer.Option(min=0.1, max=600, help="Most seconds.")] = 30.0,
) -> None:
    """Ask the history with SQL: read-only, live while Callboard runs. See docs/analytics.md."""
    from actors.console.cli.query import QueryAsked
    from actors.console.cli.query import query as ask_history

    if as_csv + as_json + plot + (parquet is not None) > 1:
        _fail(2, "Only one of --csv, --json, --plot and --parquet can be.")
    form: Literal["table", "csv", "json", "plot"] = (
        "csv" if as_csv else "json" if as_json else "plot" if plot else "table"
    )
    text = sys.stdin.read() if sql == "-" else sql
    asked = QueryAsked(text, form=form, parquet=parquet, limit=limit, timeout_s=timeout)
    _finish(home, config, lambda invocation: ask_history(invocation, asked))


@app.command(epilog="Example:  callboard insights --days 7 --by model")
def insights(
    home: Home = None,
    config: Config = None,
    days: Annotated[int, typer.Option(min=1, max=36_500, help="How many days back.")] = 30,
    by: Annotated[
        Literal["platform", "model", "session", "tool", "user"], typer.Option(help="What to break down by.")
    ] = "platform",
    as_json: AsJson = False,
) -> None:
    """Show how much was said, by whom, with what, and what it cost."""
    from actors.console.cli.insights import insights as show_insights

    _finish(home, config, lambda invocation: show_insights(invocation, days=days, by=by, as_json=as_json))


@app.command(epilog="Example:  callboard replay work --to 3")
def replay(
    session: Annotated[str, typer.Argument(help="A key, a session id, or the name of a chat.")],
    home: Home = None,
    config: Config = None,
    to: Annotated[int | None, typer.Option(min=1, metavar="TURN", help="Stop after this turn.")] = None,
    as_json: AsJson = False,
) -> None:
    """Go through a session's journal fact by fact: what happened, the state, and what was owed. Does nothing."""
    from actors.console.cli.replay import replay as replay_session

    _finish(home, config, lambda invocation: replay_session(invocation, session, to=to, as_json=as_json))


@store_app.command(
    "check", epilog="Example:  callboard store check --full   derives the rows of every fact again."
)
def store_check(
    home: Home = None,
    config: Config = None,
    full: Annotated[
        bool, typer.Option("--full", help="Look at the rows of all facts, not of the newest 20,000.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether the database is whole: numbers without gaps, rows for facts, nothing acknowledged missing."""
    from actors.console.cli.store import check_store

    _finish(home, config, lambda invocation: check_store(invocation, everything=full, as_json=as_json))


@store_app.command("backup", epilog="Example:  callboard store backup /mnt/safe/callboard.duckdb")
def store_backup(
    copy: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to; else the folder backups of the data folder."),
    ] = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Write a consistent copy, also while Callboard runs, and open it to see that it is one."""
    from actors.console.cli.store import back_up_store

    _finish(home, config, lambda invocation: back_up_store(invocation, copy))


@store_app.command(
    "restore", epilog="Example:  callboard store restore backups/callboard-20260301T020000.duckdb --yes"
)
def store_restore(
    backup: Annotated[Path, typer.Argument(metavar="FILE", help="A copy that `store backup` made.")],
    home: Home = None,
    config: Config = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")] = False,
) -> None:
    """Put a copy in the database's place; the old file stays beside it. Callboard must not run."""
    from actors.console.cli.store import restore_store

    _finish(home, config, lambda invocation: restore_store(invocation, backup, yes=yes))


@store_app.command("compact", epilog="Example:  callboard store compact   after much was deleted.")
def store_compact(home: Home = None, config: Config = None) -> None:
    """Rewrite the file without what was deleted; say how large it was and is. Callboard must not run."""
    from actors.console.cli.store import compact_store

    _finish(home, config, compact_store)


@store_app.command("export", epilog="Example:  callboard store export --parquet ./tables")
def store_export(
    parquet: Annotated[
        Path, typer.Option("--parquet", metavar="FOLDER", help="Write a Parquet file for each table there.")
    ],
    home: Home = None,
    config: Config = None,
) -> None:
    """Write every table and view as a file, also while Callboard runs."""
    from actors.console.cli.store import export_store

    _finish(home, config, lambda invocation: export_store(invocation, parquet))


@store_app.command(
    "accept-loss", epilog="Example:  callboard store accept-loss --yes   when no backup has it."
)
def store_accept_loss(
    home: Home = None,
    config: Config = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")] = False,
) -> None:
    """Go on with the database as it is, although acknowledged facts are missing. Callboard must not run."""
    from actors.console.cli.store import accept_loss_in_store

    _finish(home, config, lambda invocation: accept_loss_in_store(invocation, yes=yes))


@config_app.command("show")
def config_show(home: Home = None, config: Config = None) -> None:
    """Show all settings that hold, defaults included; secrets are masked."""
    from actors.console.cli.config import show_config

    _finish(home, config, show_config)


@config_app.command("check")
def config_check(home: Home = None, config: Config = None) -> None:
    """Check the settings file; every mistake is told with its line."""
    from actors.console.cli.config import check_config

    _finish(home, config, check_config)


@config_app.command("schema", epilog="Example:  callboard config schema > callboard.schema.json")
def config_schema() -> None:
    """Print the JSON schema of the settings file, for editors."""
    from actors.console.cli.config import schema_text

    print(schema_text(), end="")


@config_app.command("path")
def config_path(home: Home = None, config: Config = None) -> None:
    """Print where the settings file is, or would be."""
    print(_invocation(home, config).settings_path)


# ------------------------------------------------------------------ the environment


def _invocation(home: Path | None, config: Path | None) -> "Invocation":
    from actors.console.cli.invocation import Invocation
    from actors.env_file import FILE, read_env

    env = dict(os.environ)
    named = home or _Given.home or (Path(env["CALLBOARD_HOME"]) if env.get("CALLBOARD_HOME") else None)
    if named is None:
        from platformdirs import user_data_path

        named = user_data_path("callboard")
    file = config or _Given.config
    folder = named.expanduser().absolute()
    return Invocation(
        home=folder,
        env={**read_env(folder / FILE), **env},
        version=VERSION,
        config=file.expanduser().absolute() if file else None,
        forget=_forget,
    )


def _forget(names: Iterable[str]) -> None:
    """Take variables out of this process's environment: no child inherits them, and /proc does not show them."""
    from actors.tool.environment import hide_own_environment

    hide_own_environment(tuple(names))


# ------------------------------------------------------------------ how a command ends


def _finish(
    home: Path | None, config: Path | None, command: "Callable[[Invocation], Coroutine[Any, Any, int]]"
) -> None:
    """Run a command on a loop and exit with its code; what keeps it from starting is one line and its remedy."""
    from actors.console.cli.invocation import CommandFailedError
    from actors.errors import StartError
    from actors.settings_file import SettingsError

    invocation = _invocation(home, config)
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            code = int(runner.run(command(invocation)))
    except SettingsError as error:
        _fail(2, error.what, error.remedy)
    except StartError as error:
        _fail(4, error.what, error.remedy)
    except CommandFailedError as error:
        _fail(1, error.what, error.remedy)
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("Interrupted.", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception:  # noqa: BLE001 the program's edge: what nobody expected is shown, without secrets
        from actors.redaction import Redactor
        from actors.settings_file import secrets_of_environment

        known = Redactor(secrets_of_environment(invocation.env).values())
        _fail(
            1, known.clean(traceback.format_exc()), "This is a mistake in Callboard itself; please report it."
        )
    raise typer.Exit(code)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


def _fail(code: int, what: str, remedy: str = "") -> NoReturn:
    print(f"callboard: {what}", file=sys.stderr)
    if remedy:
        print(f"           {remedy}", file=sys.stderr)
    raise typer.Exit(code)


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
