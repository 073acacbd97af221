"""Every platform has its page, and the overview says what the platforms say of themselves."""

import re
from pathlib import Path

import pytest

from actors.console.cli.platforms_table import with_table
from actors.gateway.registry import Registry

PAGES = Path(__file__).parents[2] / "docs" / "platforms"
REGISTRY = Registry.discover(())


def test_the_overview_is_in_step_with_the_platforms() -> None:
    page = (PAGES / "README.md").read_text("utf-8")
    assert with_table(page, REGISTRY) == page, "run `make docs`"


@pytest.mark.parametrize("name", REGISTRY.names())
def test_each_platform_has_a_page_with_its_options(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text("utf-8")
    for option in REGISTRY.get(name).config.model_fields:
        assert f"`{option}`" in page or f"{option}:" in page, option
    assert f"({name}.md)" in (PAGES / "README.md").read_text("utf-8")


def test_every_link_between_the_pages_leads_somewhere() -> None:

    for page in PAGES.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+\.md)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
