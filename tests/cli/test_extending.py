"""The page on extending names what there is."""

from pathlib import Path

import pytest

from equipoise.binder.decisions.limits import Limits
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.settings import SOURCES
from equipoise.descheduler.decisions.strategies import STRATEGIES
from equipoise.lab.formats import FORMATS
from equipoise.lab.scenarios import SCENARIOS

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.mark.parametrize("name", [*STRATEGIES, *Limits().table, *SOURCES, *PROFILES, *FORMATS, *SCENARIOS])
def test_every_registered_name_is_on_the_page(name: str) -> None:
    """Each strategy, limit and source; policies are listed in their table only."""
    assert f"`{name}`" in PAGE.read_text()
