"""Callboard's command line, and the only reader of the environment.

`callboard …` and `python run_system.py …` are the same. Nothing heavy is imported
before a command needs it: `callboard --help` answers at once.
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
sessions_app = typer.Typer(help="List, show and export conversations.", no_args_is_help=True)
config_app = typer.Typer(help="Show and check the settings.", no_args_is_help=True)
app.add_typer(sessions_app, name="sessions")
app.add_typer(config_app, name="config")


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
    form: Annotated[Literal["md", "json"], typer.Option("--format", "-f", help="md or json.")] = "md",
) -> None:
    """Write conversations as files, one each."""
    from actors.console.cli.sessions import export_sessions

    _finish(home, config, lambda invocation: export_sessions(invocation, keys or (), out, form))


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

    env = dict(os.environ)
    named = home or _Given.home or (Path(env["CALLBOARD_HOME"]) if env.get("CALLBOARD_HOME") else None)
    if named is None:
        from platformdirs import user_data_path

        named = user_data_path("callboard")
    file = config or _Given.config
    return Invocation(
        home=named.expanduser().absolute(),
        env=env,
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
