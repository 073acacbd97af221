"""Commands: real processes."""

# ruff: noqa: ASYNC240 small files, in a test

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from actors.tool.environment import allowed_environment
from actors.tool.process import Command, Ended, Running, run_command
from messages.blocks import ToolStatus
from tests.actors.tool.shop import Shop

pytestmark = pytest.mark.slow

MAIN = Path(__file__).parents[3]


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that have the mark in their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and mark in " ".join(process.cmdline()):
                found.append(process)
    return found


async def none_is_left(mark: str) -> None:
    """Give all of them two seconds to be gone."""
    await asyncio.to_thread(psutil.wait_procs, marked(mark), timeout=2)
    assert not marked(mark)


async def begun(fifo: Path) -> None:
    """Wait until a command has written to a named pipe that it runs."""
    async with asyncio.timeout(30):
        await asyncio.to_thread(fifo.read_text)


TREES = {
    "children in the background": "sleep {n} & sleep {n}",
    "a command that ignores SIGTERM": "trap '' TERM; echo ignoring; while true; do sleep {n}; done",
    "a child in a session of its own": "setsid sleep {n} & echo away; sleep {n}",
    "a child that forked twice": "(setsid sh -c 'sleep {n} & exit' &) ; sleep {n}",
    "a child that forked twice and ignores SIGTERM": "(setsid sh -c \"trap '' TERM; sleep {n}; sleep {n}\" &) ; sleep {n}",
    "a child without the environment": "env -i setsid sleep {n} & sleep {n}",
    "a stopped child": "sleep {n} & kill -STOP $!; sleep {n}",
    "a shell in a shell in a shell": "sh -c \"sh -c 'sleep {n}; true'; true\"; true",
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
async def test_T04_after_a_timeout_nothing_is_left_and_what_was_said_is_given(shop: Shop, tree: str) -> None:
    mark = f"3{os.getpid()}{abs(hash(tree)) % 1000}"
    finished = await shop.call("terminal", command="echo started; " + tree.format(n=mark), timeout_s=1)
    assert finished.status is ToolStatus.TIMED_OUT
    assert "started" in finished.text
    assert (finished.at - finished.began_at).total_seconds() < 1 + 2 + 5  # 5: a busy machine
    await none_is_left(f"sleep {mark}")


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
async def test_T04_stopping_ends_the_whole_tree(shop: Shop, workspace: Path, tree: str) -> None:
    mark = f"4{os.getpid()}{abs(hash(tree)) % 1000}"
    os.mkfifo(workspace / "begun")
    call = shop.start("terminal", command="echo > begun; " + tree.format(n=mark))
    await begun(workspace / "begun")
    shop.stop()
    assert (await shop.answer(call)).status is ToolStatus.INTERRUPTED
    await none_is_left(f"sleep {mark}")


async def test_T04_a_child_that_holds_the_output_does_not_hold_the_call(shop: Shop) -> None:
    mark = f"5{os.getpid()}"
    command = f'{sys.executable} -c \'import subprocess; subprocess.Popen(["sleep", "{mark}"])\'; echo done'
    finished = await shop.call("terminal", command=command)
    assert (finished.status, finished.text) == (ToolStatus.OK, "done\n")
    await none_is_left(f"sleep {mark}")


async def test_T04_when_the_one_that_watches_is_killed_nothing_is_left_either(shop: Shop) -> None:
    mark = f"6{os.getpid()}"
    finished = await shop.call("terminal", command=f"setsid sleep {mark} & kill -9 $PPID; sleep {mark}")
    assert finished.status is ToolStatus.ERROR
    await none_is_left(f"sleep {mark}")


OURSELVES = """
import asyncio
from pathlib import Path
from actors.tool.process import Command, run_command
command = ["sh", "-c", "setsid sleep {n} & echo > {fifo}; sleep {n}"]
asyncio.run(run_command(Command(command, Path("/"), {{"PATH": "/usr/bin:/bin"}}, 1000, Path("/never"))))
"""


async def test_T04_when_our_own_process_is_killed_its_commands_end(tmp_path: Path) -> None:
    mark = f"7{os.getpid()}"
    os.mkfifo(tmp_path / "begun")
    script = OURSELVES.format(n=mark, fifo=tmp_path / "begun")
    process = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", script], cwd=MAIN)
    await begun(tmp_path / "begun")
    process.kill()
    await asyncio.to_thread(process.wait)
    await none_is_left(f"sleep {mark}")


async def test_T08_two_gigabytes_of_output_take_little_memory(shop: Shop) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finished = await shop.call("terminal", command="yes | head -c 2G; echo; echo the end")
    rise_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert rise_kib < 50 * 1024
    assert len(finished.text.encode()) <= 50_000
    assert finished.text.startswith("y\ny\n")
    assert finished.text.endswith("the end\n")
    shown = finished.text.count("y\n")
    dropped = int(finished.text.split("[… ")[1].split(" bytes")[0].replace(",", ""))
    assert abs(2 * 1024**3 - dropped - 2 * shown) < 64
    assert finished.kept_in is not None
    assert Path(finished.kept_in).stat().st_size == 64 * 1024 * 1024


async def test_T08_a_line_of_three_million_characters_is_cut_and_the_error_after_it_seen(shop: Shop) -> None:
    command = f"{sys.executable} -c \"print('é' * 3_000_000)\"; echo 'the error' >&2; exit 3"
    finished = await shop.call("terminal", command=command)
    assert finished.status is ToolStatus.ERROR
    assert len(finished.text.encode()) <= 50_000
    assert finished.text.endswith("the error\n[exit code 3]")
    assert "\ufffd" not in finished.text
    assert finished.kept_in is not None
    kept = Path(finished.kept_in)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == "é" * 3_000_000 + "\nthe error\n"
    assert str(kept) in finished.text
    again = await shop.call("read_file", path=str(kept), offset=2)
    assert again.text.startswith("the error\n")


async def test_T08_a_picture_is_named_and_measured(shop: Shop, workspace: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + os.urandom(5_000_000)
    (workspace / "p.png").write_bytes(picture)
    finished = await shop.call("terminal", command="cat p.png")
    assert finished.text.startswith("[binary output: image/png, 5,000,008 bytes, kept in ")
    assert finished.kept_in is not None
    assert Path(finished.kept_in).read_bytes() == picture


async def test_T08_a_progress_bar_is_shown_as_it_ended(shop: Shop) -> None:
    script = "import sys\nfor n in range(100000): sys.stdout.write(f'\\r\\x1b[32mstep {n}\\x1b[0m')\nprint()"
    finished = await shop.call(
        "terminal", command=f'{sys.executable} -c "$(cat <<X\n{script}\nX\n)"; echo last'
    )
    assert finished.text == "step 99999\nlast\n"


async def test_X06_a_command_sees_only_what_is_on_the_list(shop: Shop) -> None:
    finished = await shop.call(
        "terminal", command="env; cat /proc/self/environ /proc/$PPID/environ | tr '\\0' '\\n'"
    )
    names = {line.split("=")[0] for line in finished.text.splitlines() if "=" in line}
    assert names <= {"PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE", "CALLBOARD_CALL"}
    assert "s3cret" not in finished.text


def test_X06_what_is_granted_passes_but_never_a_preload() -> None:
    environ = {
        name: name.lower()
        for name in (
            "PATH",
            "LC_ALL",
            "TZ",
            "OPENAI_API_KEY",
            "DATABASE_URL",
            "AWS_PROFILE",
            "LD_PRELOAD",
            "MINE",
        )
    }
    seen = allowed_environment(environ, ("MINE", "LD_PRELOAD", "ABSENT"))
    assert seen == {"PATH": "path", "LC_ALL": "lc_all", "TZ": "tz", "MINE": "mine"}


HIDING = """
import ctypes, os, subprocess
from actors.tool.environment import hide_own_environment

def run(command):
    return subprocess.run(["sh", "-c", command], capture_output=True).stdout

assert hide_own_environment(drop=["DATABASE_URL"])
assert b"s3cret" not in run("cat /proc/$PPID/environ")
assert b"s3cret-db" not in run("env")
assert b"HARMLESS=kept" in run("env")
assert os.environ["HARMLESS"] == "kept"
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
assert libc.getenv(b"HARMLESS") == b"kept"
assert libc.getenv(b"DATABASE_URL") is None
print("hidden")
"""


async def test_X06_the_parents_own_environment_cannot_be_read_not_even_by_root() -> None:
    env = {"PATH": "/usr/bin:/bin", "HARMLESS": "kept", "API_KEY": "s3cret-key", "DATABASE_URL": "s3cret-db"}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", HIDING],
        cwd=MAIN,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "hidden\n", done.stderr


async def test_nothing_can_be_typed_in_and_a_command_is_told_its_folder(shop: Shop, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert (await shop.call("terminal", command="cat; pwd", cwd="sub")).text == f"{workspace}/sub\n"
    assert "not a folder" in (await shop.call("terminal", command="true", cwd="nope")).text
    assert "outside the workspace" in (await shop.call("terminal", command="true", cwd="..")).text
    assert (await shop.call("terminal", command="true")).text == "[no output]"
    assert (await shop.call("terminal", command="kill -9 $$")).text == "[ended by signal 9]"


async def test_a_command_that_does_not_exist_is_told(tmp_path: Path) -> None:
    command = Command(["/no/such/program"], tmp_path, {}, 1000, tmp_path / "kept")
    ended = await run_command(command)
    assert (ended.code, ended.error) == (None, "No such file or directory")


async def test_cancelling_twice_still_waits_until_nothing_runs(tmp_path: Path) -> None:
    mark = f"8{os.getpid()}"
    started: asyncio.Future[Running] = asyncio.get_running_loop().create_future()

    async def run() -> Ended:
        command = Command(
            ["sh", "-c", f"trap '' TERM; sleep {mark}; sleep {mark}"],
            tmp_path,
            {"PATH": "/usr/bin:/bin"},
            1000,
            tmp_path / "k",
        )
        return await run_command(command, on_start=started.set_result)

    task = asyncio.create_task(run())
    await started
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await none_is_left(f"sleep {mark}")
