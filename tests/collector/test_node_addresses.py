"""Addresses become names of nodes."""

import pytest

from equipoise.collector.decisions.query import Sample, SourceError, series_name
from equipoise.collector.sources.prometheus.node_addresses import identified_by_name, names_by_address, with_node_names


def info(node: object, address: object) -> dict[str, object]:
    return {"metric": {"node": node, "internal_ip": address}, "value": [0, "1"]}


def a_sample(node: str) -> Sample:
    return Sample(node=node, series=series_name({"instance": node}), value=1.0)


def test_an_address_names_its_node() -> None:
    """Of either family; a name that is one already stays."""
    names = names_by_address([info("a", "10.0.0.1"), info("b", "fd00::1"), info("c", "10.0.0.3")])

    told = with_node_names([a_sample("10.0.0.1"), a_sample("[fd00::1]"), a_sample("c"), a_sample("10.9.9.9")], names)
    assert ["a", "b", "c", "10.9.9.9"] == [sample.node for sample in told]


def test_an_address_that_two_nodes_had_names_neither() -> None:
    """A new node under the address of one that went must not inherit its usage."""
    names = names_by_address([info("old", "10.0.0.1"), info("new", "10.0.0.1"), info("new", "10.0.0.1")])

    assert [] == with_node_names([a_sample("10.0.0.1")], names)


def test_whatever_comes_is_no_name() -> None:
    """Elements that are none are passed over."""
    assert {} == names_by_address([None, {}, {"metric": 1}, info(1, "x"), info("a", None), info("", "y")])
    with pytest.raises(SourceError):
        names_by_address("x")


def test_series_may_be_told_apart_by_name_alone() -> None:
    """Where the user's mean and raw samples differ in other labels."""
    first, second = identified_by_name([a_sample("a"), Sample(node="a", series="", value=2.0)])

    assert first.series == second.series
