"""Scrape intervals, as measured samples show them."""

import math

from collector.samples import a_sample

from equipoise.collector.decisions.node_names import NodeNames
from equipoise.collector.decisions.validation.scrape_intervals import scrape_intervals


def test_intervals_are_found_per_node() -> None:
    """The larger of two series of a node counts; nodes without one get the default."""
    found = scrape_intervals(
        [a_sample(15.0), a_sample(30.0), a_sample(60.0, "b"), a_sample(math.nan, "c"), a_sample(0.0, "d")],
        NodeNames(),
        {},
    )

    assert (30.0, 60.0, 45.0) == (found.of("a"), found.of("b"), found.of("c"))
