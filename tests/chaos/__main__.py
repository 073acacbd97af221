# ruff: noqa: T201 it is a program: this is its output
"""python -m tests.chaos --kills N --seed S --minutes M: one chaos run, one JSON line of counts, exit 1 when
something was lost, doubled or stuck."""

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.plan import Account, make_plan
from tests.chaos.run import Run
from tests.chaos.verdict import Counts, judge, read_facts

ALL: tuple[Account, ...] = ("web", "keyed", "looked", "bare")


async def chaos(
    folder: Path,
    *,
    kills: int,
    seed: int,
    minutes: float,
    sessions: int = 24,
    accounts: tuple[Account, ...] = ALL,
) -> Counts:
    """Run a plan in a folder and judge it."""
    plan = make_plan(seed, kills, sessions=sessions, accounts=accounts)
    run = Run(plan, folder, minutes=minutes)
    seen = await run.go()
    return judge(run.said, seed, await read_facts(run.home), seen)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="else one is drawn, and printed")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new life begins after so long")
    parser.add_argument("--sessions", type=int, default=24)
    parser.add_argument("--accounts", default=",".join(ALL))
    parser.add_argument("--keep", type=Path, help="keep data and logs in this folder")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="callboard-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    counts = asyncio.run(
        chaos(
            folder,
            kills=given.kills,
            seed=seed,
            minutes=given.minutes,
            sessions=given.sessions,
            accounts=tuple(given.accounts.split(",")),
        )
    )
    print(counts.line(), flush=True)
    if counts.clean and not given.keep:
        shutil.rmtree(folder)
    elif not counts.clean:
        print(f"data and logs are in {folder}", file=sys.stderr)
    return 0 if counts.clean else 1


if __name__ == "__main__":
    sys.exit(main())
