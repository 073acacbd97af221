"""A hook: one line per finished turn in turns.csv beside this file, with how long it took and how it ended.

In callboard.yaml:

    hooks:
      files:
        - examples/hooks/turn_times.py:turn_ended
"""

import csv
from pathlib import Path

from messages.lifecycle import ProcessingCompleted

TABLE = Path(__file__).with_name("turns.csv")


def turn_ended(event: ProcessingCompleted) -> None:
    """Note the end of a turn. The annotation says which events this hook hears."""
    seconds = (event.at - event.began_at).total_seconds()
    with TABLE.open("a", encoding="utf-8", newline="") as table:
        csv.writer(table).writerow([event.session_key, event.turn, event.reason, f"{seconds:.3f}"])
