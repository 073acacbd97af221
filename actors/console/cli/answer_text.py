"""Showing an answer that grows: finished Markdown blocks are printed once, the rest is shown live."""

from dataclasses import dataclass, field

from messages.gateway import DraftChanged

_BEGINS_ANEW = "*(the answer begins anew)*"


def finished_upto(text: str, start: int = 0) -> int:
    """Return the end of the last whole block at or after `start`: a blank line that is in no code fence."""
    end = start
    fence = ""
    at = start
    for line in text[start:].splitlines(keepends=True):
        at += len(line)
        bare = line.strip()
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
                if line.endswith("\n"):
                    end = at
        elif bare.startswith(("```", "~~~")):
            fence = bare[0] * (len(bare) - len(bare.lstrip(bare[0])))
        elif not bare and line.endswith("\n"):
            end = at
    return end


@dataclass(slots=True)
class AnswerText:
    """The answer of one turn, as it becomes known. What was printed is never printed again."""

    draft: str = ""
    """Of the running model call."""
    printed: int = 0
    """How much of the draft was printed."""
    _place: tuple[int, int] | None = None
    _everything: list[str] = field(default_factory=list)

    @property
    def tail(self) -> str:
        """What is not printed yet; shown live."""
        return self.draft[self.printed :]

    def heard(self, change: DraftChanged) -> list[str]:
        """Return the blocks to print now."""
        blocks = []
        place = (change.turn, change.call)
        if place != self._place:
            blocks += self._take(len(self.draft))
            if self._place is not None and self._place[0] != change.turn:
                self._everything.clear()
            self._place, self.draft, self.printed = place, "", 0
        if change.whole:
            if not change.text.startswith(self.draft[: self.printed]):
                self.printed = 0
                blocks.append(_BEGINS_ANEW)
            self.draft = change.text
        else:
            self.draft += change.text
        return blocks + self._take(finished_upto(self.draft, self.printed))

    def finish(self, final: str) -> list[str]:
        """Return what is missing of the final text; the turn is over."""
        shown = self.draft[: self.printed]
        everything = "".join(self._everything)
        if shown and final.startswith(shown):
            blocks = [final[len(shown) :]]
        elif final.startswith(everything):
            blocks = [final[len(everything) :]]
        elif not shown:
            blocks = [final]
        elif everything.strip().endswith(final.strip()):
            blocks = []
        else:
            blocks = [_BEGINS_ANEW, final]
        self._reset()
        return [block for block in blocks if block.strip()]

    def pause(self) -> list[str]:
        """Return what was written and not printed; the model has called tools and will write on after them."""
        return self._take(len(self.draft))

    def give_up(self) -> list[str]:
        """Return what was written and not printed; the turn ended without an answer."""
        blocks = self._take(len(self.draft))
        self._reset()
        return blocks

    def _reset(self) -> None:
        self.draft, self.printed, self._place = "", 0, None
        self._everything.clear()

    def _take(self, end: int) -> list[str]:
        block = self.draft[self.printed : end]
        self.printed = max(self.printed, end)
        self._everything.append(block)
        return [block] if block.strip() else []
