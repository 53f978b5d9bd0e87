"""The seconds in which workloads have fewer running replicas than wanted."""

from equipoise.lab.model.replicas.replica_gaps import ReplicaGaps


def gaps(*changes: tuple[float, int, int], workload: int = 0, until: float = 100.0) -> float:
    """Of one workload. `changes`: (time, desired, running)."""
    found = ReplicaGaps()
    for now, desired, running in changes:
        found.update(workload, desired=desired, running=running, now=now)
    return found.seconds(until)


def test_a_gap_lasts_until_the_replacement_runs() -> None:
    assert 10.0 == gaps((0.0, 2, 2), (5.0, 2, 1), (15.0, 2, 2))


def test_a_gap_that_has_not_ended_counts_until_the_end() -> None:
    assert 95.0 == gaps((0.0, 1, 1), (5.0, 1, 0))


def test_two_missing_replicas_of_a_workload_are_one_gap() -> None:
    """Seconds are counted, not pods."""
    assert 20.0 == gaps((0.0, 3, 3), (5.0, 3, 2), (15.0, 3, 1), (20.0, 3, 2), (25.0, 3, 3))


def test_the_start_of_an_added_replica_is_no_gap() -> None:
    """It was never there. Once it has run, it is missed."""
    assert 0.0 == gaps((0.0, 1, 1), (5.0, 2, 1), (15.0, 2, 2))
    assert 4.0 == gaps((0.0, 1, 1), (5.0, 2, 1), (15.0, 2, 2), (20.0, 2, 1), (24.0, 2, 2))


def test_a_replica_that_is_scaled_down_is_not_missed() -> None:
    """Also if it was missing before."""
    assert 0.0 == gaps((0.0, 2, 2), (5.0, 1, 2), (5.0, 1, 1))
    assert 5.0 == gaps((0.0, 2, 2), (5.0, 2, 1), (10.0, 1, 1))


def test_the_gaps_of_workloads_are_added() -> None:
    found = ReplicaGaps()
    for workload in range(2):
        found.update(workload, desired=1, running=1, now=0.0)
        found.update(workload, desired=1, running=0, now=10.0)
        found.update(workload, desired=1, running=1, now=20.0)

    assert 20.0 == found.seconds(100.0)
