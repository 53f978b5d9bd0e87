"""Which scrape job measures a node."""

from collections.abc import Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.node_names import node_names
from equipoise.collector.decisions.query import Origin, Sample, Scrape
from equipoise.collector.decisions.scrape_choice import choose_scrapes
from equipoise.collector.decisions.validation.scrape_intervals import machine_sizes

NODES = [f"node-{number}" for number in range(10)]
NAMES = node_names({node: [f"10.0.0.{number}"] for number, node in enumerate(NODES)})
OWN = Scrape(job="node-exporter", namespace="monitoring")
OTHER = Scrape(job="shop", namespace="shop")
INVENTED = [f"invented-{number}" for number in range(1_000)]


def of_each(scrape: Scrape, nodes: Iterable[str]) -> list[Sample]:
    """A target on each node."""
    return [
        Sample(origin=Origin(node=node, scrape=scrape, target=f"{node}:9100"), series=node, value=1.0) for node in nodes
    ]


def of_one(scrape: Scrape, nodes: Iterable[str]) -> list[Sample]:
    """One target with series of all these nodes."""
    return [
        Sample(origin=Origin(node=node, scrape=scrape, target="10.244.1.7:80"), series=node, value=1.0)
        for node in nodes
    ]


def test_the_job_with_most_nodes_measures_each() -> None:
    """Nodes are found by name or address; those that do not exist do not count."""
    own = of_each(OWN, [*NODES[:5], *(f"10.0.0.{number}" for number in range(5, 10))])
    chosen = choose_scrapes([*own, *of_each(OTHER, [NODES[3], *INVENTED])], NAMES, {})

    assert dict.fromkeys(NODES, OWN) == chosen


def test_a_target_with_series_of_all_nodes_measures_none() -> None:
    """Not even a node whose exporter fails."""
    chosen = choose_scrapes([*of_each(OWN, NODES[:8]), *of_one(OTHER, [*NODES, *INVENTED])], NAMES, {})

    assert dict.fromkeys(NODES, OWN) == chosen


def test_one_target_may_have_the_series_of_all_nodes() -> None:
    """Proxies and federations are such targets, also when a tenant has series of some nodes."""
    assert dict.fromkeys(NODES, OWN) == choose_scrapes(of_one(OWN, NODES), NAMES, {})
    chosen = choose_scrapes([*of_one(OWN, NODES), *of_one(OTHER, NODES[:2])], NAMES, {})
    assert dict.fromkeys(NODES, OWN) == chosen


def test_jobs_of_different_nodes_measure_their_own() -> None:
    """Several pools may have a job each."""
    assert {**dict.fromkeys(NODES[:7], OWN), **dict.fromkeys(NODES[7:], OTHER)} == choose_scrapes(
        [*of_each(OWN, NODES[:7]), *of_each(OTHER, NODES[7:])], NAMES, {}
    )


def test_of_equal_jobs_none_is_chosen() -> None:
    """The node has two series."""
    assert {} == choose_scrapes([*of_each(OWN, NODES), *of_each(OTHER, NODES)], NAMES, {})


def test_of_equal_jobs_the_one_that_has_measured_a_node_remains() -> None:
    """Also if the other one appears on every node at once."""
    before = choose_scrapes(of_each(OWN, NODES), NAMES, {})

    assert before == choose_scrapes([*of_each(OTHER, NODES), *of_each(OWN, NODES)], NAMES, before)


def test_of_equal_pages_of_the_kubelet_cadvisors_is_chosen() -> None:
    """The other one has containers only."""
    pages = [Scrape(job="kubelet", path=f"/metrics/{name}") for name in ("resource", "cadvisor")]
    samples = [sample for page in pages for sample in of_each(page, NODES)]

    assert dict.fromkeys(NODES, pages[1]) == choose_scrapes(samples, NAMES, {})


def test_a_node_keeps_its_job_while_its_exporter_fails() -> None:
    """Whoever has series of it then does not measure it; when the job is gone, another one may."""
    before = choose_scrapes(of_each(OWN, NODES), NAMES, {})
    failing = [*of_each(OWN, NODES[1:]), *of_each(OTHER, NODES[:1])]

    assert OWN == choose_scrapes(failing, NAMES, before)[NODES[0]]
    assert OTHER == choose_scrapes(of_each(OTHER, NODES), NAMES, before)[NODES[0]]


def test_a_job_of_more_nodes_replaces_what_was_chosen_last() -> None:
    """The collector may have begun while the exporter failed."""
    before = choose_scrapes(of_each(OTHER, NODES[:1]), NAMES, {})

    assert OWN == choose_scrapes([*of_each(OWN, NODES), *of_each(OTHER, NODES[:1])], NAMES, before)[NODES[0]]


@given(
    claims=st.lists(st.tuples(st.sampled_from([*NODES, *INVENTED[:3]]), st.sampled_from(["x", "y"])), max_size=30),
    missing=st.sets(st.sampled_from(NODES), max_size=3),
)
def test_a_tenant_with_two_targets_never_measures_a_node_that_is_scraped(
    claims: list[tuple[str, str]], missing: set[str]
) -> None:
    """Whatever it writes, and whichever exporters fail."""
    forged = [
        Sample(origin=Origin(node=node, scrape=OTHER, target=target), series=node, value=9.0) for node, target in claims
    ]
    scraped = [node for node in NODES if node not in missing]
    chosen = choose_scrapes([*of_each(OWN, scraped), *forged], NAMES, {})

    assert dict.fromkeys(scraped, OWN) == {node: chosen.get(node) for node in scraped}


def test_what_a_tenant_claims_of_a_machine_does_not_count_while_its_exporter_fails() -> None:
    """Nor do two jobs count that have as many nodes, if neither has measured them."""
    before = choose_scrapes(of_each(OWN, NODES), NAMES, {})
    claimed = [msgspec.structs.replace(sample, value=1e15) for sample in of_each(OTHER, NODES)]

    assert machine_sizes([*of_each(OWN, NODES[1:]), claimed[0]], NAMES, before) == dict.fromkeys(NODES[1:], 1.0)
    assert machine_sizes([*of_each(OWN, NODES), *claimed], NAMES, before) == dict.fromkeys(NODES, 1.0)
    assert machine_sizes([*of_each(OWN, NODES), *claimed], NAMES, {}) == {}
