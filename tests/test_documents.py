"""What is written from the code says what the code says."""

from pathlib import Path

from actors.console.cli.config import schema_text
from actors.console.cli.settings_table import with_tables
from actors.settings_file import known_settings

ROOT = Path(__file__).parent.parent


def test_the_configuration_page_is_in_step_with_the_settings() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert with_tables(page) == page, "run `make docs`"
    for path, _ in known_settings():
        assert f"`{path[-1]}`" in page or f".{path[-1]}`" in page or f"`{path[-1]}[]`" in page


def test_the_schema_is_in_step_with_the_settings() -> None:
    assert (ROOT / "callboard.schema.json").read_text("utf-8") == schema_text(), "run `make schema`"


def test_the_makefile_explains_its_targets() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    for target in ("install", "run", "test", "test-unit", "lint", "fmt", "bench", "help"):
        assert f"\n{target}:" in text
