"""The real program, with a DuckDB that fails its writer: run as `run_system.py` is, with the same words.

`CHAOS_STORE=before:5,after:4,invalid:7` lets the thread that writes die at the fifth commit of
facts, before it is made; again at the fourth after that, which is made, before anybody
hears of it; and at the seventh after that DuckDB gives the database up: a checkpoint whose
file may not grow, as on a full disk, is what it does that for. All of it happens in
DuckDB's binding, so what falls and comes back is the program as it is.

`CHAOS_STORE_NOTES` names a file: a line `died KIND` for each death, `back` for the first
commit of facts after it.
"""

import os
import resource
import runpy
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

import duckdb

ROOT = Path(__file__).resolve().parent.parent.parent
DEATHS, NOTES = "CHAOS_STORE", "CHAOS_STORE_NOTES"


class Deaths:
    """What is to come, counted in commits of facts. All calls come from threads of the store."""

    def __init__(self, spec: str, notes: Path) -> None:
        self._notes = notes
        self._to_come = deque((kind, int(most)) for kind, most in (d.split(":") for d in spec.split(",")))
        self._commits = 0
        self._down = False
        self._facts = threading.local()

    def flushed(self) -> None:
        """Rows are on their way into a transaction of this thread: its commit is one of facts."""
        self._facts.flushed = True

    def begins(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let the database be given up, when that is next and it has something to move into its file."""
        if self._is_next("invalid", after=1) and _invalidate(connection):
            self._die("invalid")

    def before_commit(self) -> None:
        """A commit is about to be made."""
        if self._of_facts() and self._is_next("before"):
            self._die("before")
            raise MemoryError("no memory for a commit")

    def after_commit(self) -> None:
        """A commit is durable, and nobody knows."""
        if not self._of_facts():
            return
        self._facts.flushed = False
        if self._is_next("after"):
            self._die("after")
            raise MemoryError("no memory after a commit")
        self._commits += 1
        if self._down:
            self._down = False
            self._note("back")

    def _of_facts(self) -> bool:
        return getattr(self._facts, "flushed", False)

    def _is_next(self, kind: str, *, after: int = 0) -> bool:
        if not self._to_come:
            return False
        wanted, most = self._to_come[0]
        return wanted == kind and self._commits + 1 >= most + after

    def _die(self, kind: str) -> None:
        self._to_come.popleft()
        self._commits, self._down, self._facts.flushed = 0, True, False
        self._note(f"died {kind}")

    def _note(self, line: str) -> None:
        with self._notes.open("a") as notes:
            notes.write(f"{line}\n")


def _invalidate(connection: duckdb.DuckDBPyConnection) -> bool:
    """Let a checkpoint fail; return whether DuckDB has given the database up. It does not when it has nothing to do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        connection.cursor().execute("CHECKPOINT")
    except (duckdb.FatalException, duckdb.InternalException):
        return True
    except duckdb.Error:
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return False


def install(deaths: Deaths) -> None:
    """Put the faults into DuckDB's binding, in a process that is there to be harmed."""
    connection: Any = duckdb.DuckDBPyConnection
    appender: Any = type(duckdb.connect().execute("CREATE TABLE t (i INTEGER)").appender("t"))
    flush, begin, commit = appender.flush, connection.begin, connection.commit

    def flushed(self: Any) -> Any:
        deaths.flushed()
        return flush(self)

    def begun(self: Any) -> Any:
        deaths.begins(self)
        return begin(self)

    def committed(self: Any) -> Any:
        deaths.before_commit()
        done = commit(self)
        deaths.after_commit()
        return done

    appender.flush, connection.begin, connection.commit = flushed, begun, committed


if __name__ == "__main__":
    install(Deaths(os.environ[DEATHS], Path(os.environ[NOTES])))
    sys.path[0] = str(ROOT)
    sys.argv[0] = str(ROOT / "run_system.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
