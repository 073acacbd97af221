"""Charts of characters: horizontal bars, one or several for each label."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "red")
_LONGEST_LABEL: Final = 40


def bar(value: float, greatest: float, width: int) -> str:
    """Return a bar of at most `width` characters, to an eighth of one; something above zero is always seen."""
    if greatest <= 0 or value <= 0 or not math.isfinite(value):
        return ""
    eighths = max(1, round(min(1.0, value / greatest) * width * 8))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def bars(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], width: int) -> list[Text]:
    """Return lines: for each label a bar of each series, all to one scale. None is shown as unknown."""
    greatest = max((v for values in series.values() for v in values if v is not None), default=0.0)
    label_width = min(_LONGEST_LABEL, max((cell_len(label) for label in labels), default=0))
    shown = {name: [_number(value) for value in values] for name, values in series.items()}
    number_width = max((len(text) for texts in shown.values() for text in texts), default=0)
    room = max(10, width - label_width - number_width - 4)
    lines = []
    if len(series) > 1:
        legend = Text(" " * (label_width + 2))
        for n, name in enumerate(series):
            legend.append("█ ", style=_COLOURS[n % len(_COLOURS)]).append(f"{name}   ")
        lines.append(legend)
    for row, label in enumerate(labels):
        for n, (name, values) in enumerate(series.items()):
            value = values[row]
            line = Text(set_cell_size(label if n == 0 else "", label_width) + "  ")
            line.append(bar(value or 0.0, greatest, room), style=_COLOURS[n % len(_COLOURS)])
            line.append(f" {shown[name][row]}")
            lines.append(line)
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
