import asyncio
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from actors.hooks import GROUP, install_hooks, load_hooks
from actors.lifecycle import Lifecycle
from actors.runtime import ActorSystem
from messages.ids import SessionKey, Turn
from messages.lifecycle import ProcessingCompleted, ToolBegan, ToolEnded
from messages.settings import HookSettings
from tests.fakes.clock import START

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "hooks"

GOOD = """
from messages.lifecycle import LifecycleEvent, ToolBegan, ToolEnded
def everything(event): ...
def events(event: LifecycleEvent): ...
async def tools(event: ToolBegan | ToolEnded): ...
class Counter:
    def __call__(self, event: "ToolEnded"): ...
counter = Counter()
"""

BAD = {
    "syntax.py": "def f(event:\n",
    "raises.py": "x = 1\nraise RuntimeError('no luck')\ndef f(event): ...",
    "exits.py": "raise SystemExit(3)",
    "imports.py": "import surely_not_installed\ndef f(event): ...",
    "two.py": "def f(a, b): ...",
    "none.py": "f = 3",
    "annotated.py": "def f(event: int): ...",
    "unknown.py": "def f(event: 'Nobody'): ...",
    "empty.py": "",
}


async def test_the_example_works_as_the_docs_say(system: ActorSystem, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "turn_times.py", tmp_path)
    bus = Lifecycle(system)
    assert install_hooks(bus, HookSettings(files=("turn_times.py:turn_ended",)), tmp_path) == ()
    bus.publish(
        ProcessingCompleted(
            session_key=SessionKey("s"), turn=Turn(3), reason="answered", began_at=START, at=START
        )
    )
    await bus.close()
    assert (tmp_path / "turns.csv").read_text().strip() == "s,3,answered,0.000"


def test_the_docs_show_the_example_as_it_is() -> None:
    docs = (EXAMPLES.parents[1] / "docs" / "hooks.md").read_text()
    code = docs.split("```python\n")[1].split("```")[0]
    example = (EXAMPLES / "turn_times.py").read_text()
    for line in filter(None, code.splitlines()):
        assert line in example


def test_annotations_say_which_events_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    names = ("everything", "events", "tools", "counter")
    hooks, problems = load_hooks(HookSettings(files=tuple(f"good.py:{n}" for n in names)), tmp_path, ())
    assert problems == ()
    assert [(hook.name, hook.kinds) for hook in hooks] == [
        ("good.everything", None),
        ("good.events", None),
        ("good.tools", (ToolBegan, ToolEnded)),
        ("good.counter", (ToolEnded,)),
    ]


@pytest.mark.parametrize(
    ("entry", "reason", "line"),
    [
        ("syntax.py:f", "SyntaxError", 1),
        ("raises.py:f", "RuntimeError: no luck", 2),
        ("exits.py:f", "SystemExit: 3", 1),
        ("imports.py:f", "No module named 'surely_not_installed'", 1),
        ("two.py:f", "takes exactly one argument", None),
        ("none.py:f", "3 is not a function", None),
        ("annotated.py:f", "not an event", None),
        ("unknown.py:f", "not imported", None),
        ("empty.py:f", "has no function 'f'", None),
        ("missing.py:f", "there is no file", None),
        ("raises.py", "path/to/file.py:function", None),
        ("raises.py:", "path/to/file.py:function", None),
    ],
)
def test_a_broken_hook_is_reported_and_the_others_are_loaded(
    tmp_path: Path, entry: str, reason: str, line: int | None
) -> None:
    for name, text in BAD.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "good.py").write_text(GOOD)
    hooks, [problem] = load_hooks(HookSettings(files=(entry, "good.py:events")), tmp_path, ())
    assert [hook.name for hook in hooks] == ["good.events"]
    assert problem.source == entry
    assert reason in problem.reason
    assert problem.line == line
    assert line is None or problem.file == str(tmp_path / entry.partition(":")[0])


def test_hooks_of_packages_are_found_and_broken_ones_reported(tmp_path: Path) -> None:
    installed = (
        EntryPoint("works", "asyncio:iscoroutine", GROUP),
        EntryPoint("broken", "surely_not_installed:hook", GROUP),
        EntryPoint("misspelt", "asyncio:iscoroutin", GROUP),
    )
    hooks, problems = load_hooks(HookSettings(), tmp_path, installed)
    assert [hook.name for hook in hooks] == ["works"]
    assert [problem.source.split()[0] for problem in problems] == ["broken", "misspelt"]
    assert asyncio.iscoroutine is hooks[0].function
