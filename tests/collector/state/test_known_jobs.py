"""The scrape jobs to which queries are limited."""

from equipoise.collector.state.known_jobs import KnownJobs

OWN = ["node-exporter", "kubelet", "kubelet"]


def jobs() -> KnownJobs:
    return KnownJobs(period=1_800.0, period_while_missing=300.0)


def test_queries_are_limited_to_the_jobs_that_measure_nodes() -> None:
    """All jobs are queried first, and again after each period."""
    found = jobs()
    assert () == found.current
    found.on_round(OWN, 1_000.0, missing=False, failed=False)
    assert ("kubelet", "node-exporter") == found.current
    found.on_round(OWN, 2_799.0, missing=False, failed=False)
    assert ("kubelet", "node-exporter") == found.current
    found.on_round(OWN, 2_800.0, missing=False, failed=False)
    assert () == found.current


def test_a_node_without_series_is_searched_for_sooner() -> None:
    """A new pool may have a job of its own, and a job another name."""
    found = jobs()
    found.on_round(OWN, 1_000.0, missing=True, failed=False)
    found.on_round([], 1_299.0, missing=True, failed=False)
    assert found.current
    found.on_round([], 1_300.0, missing=True, failed=False)
    assert () == found.current
    found.on_round(["renamed"], 1_315.0, missing=False, failed=False)
    assert ("renamed",) == found.current


def test_when_all_jobs_cannot_be_queried_the_known_ones_are() -> None:
    """Their series may be too many."""
    found = jobs()
    found.on_round(OWN, 1_000.0, missing=False, failed=False)
    found.on_round(OWN, 2_800.0, missing=False, failed=False)
    found.on_round([], 2_815.0, missing=False, failed=True)
    assert ("kubelet", "node-exporter") == found.current


def test_without_a_job_that_measures_nodes_all_are_queried() -> None:
    """Sources without jobs are queried in the same way."""
    found = jobs()
    found.on_round([], 1_000.0, missing=False, failed=False)
    assert () == found.current


def test_jobs_are_searched_for_again_when_the_clock_goes_back() -> None:
    """Not only when it has reached the earlier time again."""
    found = jobs()
    found.on_round(OWN, 90_000.0, missing=False, failed=False)
    found.on_round(OWN, 1_000.0, missing=False, failed=False)
    assert () == found.current
