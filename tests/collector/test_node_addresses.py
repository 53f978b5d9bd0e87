"""Node names instead of addresses."""

import pytest

from equipoise.collector.decisions.query import Sample, SourceError, series_name
from equipoise.collector.sources.prometheus.node_addresses import identified_by_name, names_by_address, with_node_names


def info(node: object, address: object) -> dict[str, object]:
    return {"metric": {"node": node, "internal_ip": address}, "value": [0, "1"]}


def a_sample(node: str) -> Sample:
    return Sample(node=node, series=series_name({"instance": node}), value=1.0)


def test_an_address_is_replaced_by_its_nodes_name() -> None:
    """IPv4 and IPv6; a name stays as it is."""
    names = names_by_address([info("a", "10.0.0.1"), info("b", "fd00::1"), info("c", "10.0.0.3")])

    published = with_node_names(
        [a_sample("10.0.0.1"), a_sample("[fd00::1]"), a_sample("c"), a_sample("10.9.9.9")], names
    )
    assert ["a", "b", "c", "10.9.9.9"] == [sample.node for sample in published]


def test_samples_of_an_address_of_two_nodes_are_left_out() -> None:
    """A new node with the address of a deleted one must not get its usage."""
    names = names_by_address([info("old", "10.0.0.1"), info("new", "10.0.0.1"), info("new", "10.0.0.1")])

    assert [] == with_node_names([a_sample("10.0.0.1")], names)


def test_invalid_elements_are_skipped() -> None:
    """A result that is no list is an error."""
    assert {} == names_by_address([None, {}, {"metric": 1}, info(1, "x"), info("a", None), info("", "y")])
    with pytest.raises(SourceError):
        names_by_address("x")


def test_series_can_be_identified_by_name_alone() -> None:
    """When the user's mean and raw samples have different other labels."""
    first, second = identified_by_name([a_sample("a"), Sample(node="a", series="", value=2.0)])

    assert first.series == second.series
