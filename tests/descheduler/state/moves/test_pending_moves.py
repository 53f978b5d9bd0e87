"""Moves from their proposal to their replacement, or to the end of a dry run."""

import msgspec
import pytest
from builders import NOW, a_workload, an_intent
from descheduler.cluster import moment
from descheduler.outcomes import DAY, a_proposed_move, after, an_outcome, dry_run_moves

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.descheduler.state.moves.pending_moves import (
    MAX_DRY_RUN_MOVES,
    PendingMoves,
    PodLocation,
    busy_workloads,
    current,
    dry_runs,
    pending_triggers,
    replacements,
    reported_dry_runs,
    reported_pending,
    without_outcome,
)

HERE = {"uid-web-1": PodLocation(node="node-a", workload=a_workload())}
NODES = ("node-a", "node-b")


def a_candidate(name: str = "web-new", created_at: float = NOW) -> Pod:
    metadata = ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=moment(created_at))
    return Pod(metadata=metadata, spec=PodSpec(node_name="node-b"))


def replaced(moves: PendingMoves, *candidates: Pod) -> dict[str, Pod]:
    return replacements(moves, {a_workload(): candidates})


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.EVICTED, Outcome.DRY_RUN}))
def test_every_refusal_ends_a_move(outcome: Outcome) -> None:
    """A pod that was not evicted has no pending move."""
    move = a_proposed_move()

    assert not after({move.id: move}, an_outcome(outcome))


def test_a_new_leader_receives_evictions_from_the_bus() -> None:
    """An eviction of another leader is pending too. Its replacement is recognized by its creation time."""
    moves = after({}, an_outcome(Outcome.EVICTED), now=NOW + 60)
    (move,) = moves.values()

    assert (move.target, move.expected_reduction.cpu, move.info) == ("node-b", 1.0, None)
    assert replaced(moves, a_candidate(created_at=NOW - 5)) == {}
    assert replaced(moves, a_candidate()) == {move.id: a_candidate()}


def test_a_replacement_of_another_leaders_move_without_a_gap_is_older_than_the_eviction() -> None:
    """It serves before the pod leaves. A clock that is ahead of this one proposes nothing later than it evicts."""
    moves = after({}, an_outcome(Outcome.EVICTED, settled_at=NOW + 50), now=NOW + 60)
    (move,) = moves.values()

    assert replaced(moves, a_candidate(created_at=NOW - 5)) == {}
    assert replaced(moves, a_candidate(created_at=NOW + 3)) == {move.id: a_candidate(created_at=NOW + 3)}
    ahead = after({}, an_outcome(Outcome.EVICTED, an_intent(decided_at=NOW + 900), settled_at=NOW + 901), now=NOW)
    assert len(replaced(ahead, a_candidate(created_at=NOW))) == 1


def test_a_new_leader_tells_apart_the_pods_of_several_moves_of_a_single_replica() -> None:
    """Each was the replacement of the one before, so the pod that lives replaces the last one only. A pod that is older
    than the first move replaced none."""
    moves: PendingMoves = {}
    for number, node in enumerate(("node-a", "node-b", "node-c")):
        cost = MoveCost(age=86_400.0 if number == 0 else 50.0)
        intent = msgspec.structs.replace(an_intent(f"web-{number}", node, decided_at=NOW + 60 * number), cost=cost)
        moves = after(moves, an_outcome(Outcome.EVICTED, intent, settled_at=NOW + 60 * number + 5), now=NOW + 300)
    living = a_candidate(created_at=NOW + 121)

    found = replaced(moves, living)

    assert {moves[id].pod: pod.metadata.name for id, pod in found.items()} == {
        "web-0": "web-1", "web-1": "web-2", "web-2": "web-new"
    }  # fmt: skip
    assert [pod.spec.node_name for pod in found.values()] == ["node-b", "node-c", "node-b"]


def test_pods_of_one_workload_that_were_moved_together_replace_none_of_each_other() -> None:
    """Whether their age is known or not."""
    for cost in (None, MoveCost(), MoveCost(age=600.0)):
        moves: PendingMoves = {}
        for name in ("web-1", "web-2"):
            intent = msgspec.structs.replace(an_intent(name), cost=cost)
            moves = after(moves, an_outcome(Outcome.EVICTED, intent))

        assert replaced(moves) == {}
        assert len(replaced(moves, a_candidate(), a_candidate("web-newer"))) == 2


def test_old_outcomes_are_no_pending_moves() -> None:
    """The bus keeps outcomes for a day."""
    assert not after({}, an_outcome(Outcome.EVICTED), now=NOW + 3_600)
    assert not after({}, an_outcome(Outcome.DRY_RUN), now=NOW + DAY)


def test_one_pod_replaces_one() -> None:
    """Two evictions of a workload wait for two pods."""
    moves = after({}, an_outcome(Outcome.EVICTED, an_intent("web-1")))
    moves = after(moves, an_outcome(Outcome.EVICTED, an_intent("web-2")))

    assert len(replaced(moves, a_candidate())) == 1
    assert len(replaced(moves, a_candidate(), a_candidate("web-newer"))) == 2


def test_a_dry_run_uses_up_no_limit() -> None:
    """Its pod does not count as moving, and its outcome is known."""
    moves = dry_run_moves(an_intent())

    assert dry_runs(moves).keys() == {"uid-web-1"}
    assert (busy_workloads(moves), without_outcome(moves)) == ({}, 0)
    assert reported_pending(moves) == []
    (reported,) = reported_dry_runs(moves)
    assert (reported.pod, reported.node, reported.target) == ("web-1", "node-a", "node-b")
    assert (reported.since, reported.until) == (NOW, NOW + DAY)


def test_a_real_move_counts_until_its_replacement_is_placed() -> None:
    """Its workload is busy, and until its outcome it takes one of the pending intents."""
    move = a_proposed_move()
    evicted = after({move.id: move}, an_outcome(Outcome.EVICTED))

    assert (busy_workloads({move.id: move}), without_outcome({move.id: move})) == ({a_workload(): 1}, 1)
    assert (busy_workloads(evicted), without_outcome(evicted)) == ({a_workload(): 1}, 0)
    assert [entry.evicted_at for entry in reported_pending(evicted)] == [NOW]


@pytest.mark.parametrize(
    ("locations", "nodes", "now"),
    [
        ({}, NODES, NOW),
        ({"uid-web-1": PodLocation(node="node-c", workload=a_workload())}, NODES, NOW),
        ({"uid-web-1": PodLocation(node="node-a", workload=a_workload("other"))}, NODES, NOW),
        (HERE, ("node-a",), NOW),
        (HERE, NODES, NOW + DAY),
    ],
    ids=["pod gone", "pod on another node", "another workload", "target gone", "expired"],
)
def test_a_dry_runs_move_ends(locations: dict[str, PodLocation], nodes: tuple[str, ...], now: float) -> None:
    """When the pod is gone, moved or another workload's, when its target is gone, and after its lifetime."""
    moves = dry_run_moves(an_intent())

    assert current(moves, HERE, NODES, NOW + DAY - 1)
    assert not current(moves, locations, nodes, now)


def test_only_an_eviction_ends_a_dry_runs_move() -> None:
    """Of the same pod. A refusal changes nothing."""
    moves, later = dry_run_moves(an_intent()), an_intent(id="later")

    assert after(moves, an_outcome(Outcome.REJECTED_LIMIT, later)) == moves
    assert not dry_runs(after(moves, an_outcome(Outcome.EVICTED, later)))


def test_a_later_dry_run_of_a_pod_replaces_the_earlier_one() -> None:
    """A pod counts on one target."""
    moves = dry_run_moves(an_intent(), an_intent(id="later", target="node-c"))

    assert [move.target for move in moves.values()] == ["node-c"]


def test_the_number_of_dry_run_moves_is_bounded() -> None:
    """The newest are kept."""
    moves = dry_run_moves(*(an_intent(f"web-{number}") for number in range(MAX_DRY_RUN_MOVES + 10)))

    assert len(moves) == MAX_DRY_RUN_MOVES
    assert "uid-web-9" not in dry_runs(moves)
    assert "uid-web-10" in dry_runs(moves)


@pytest.mark.parametrize("outcome", [None, Outcome.EVICTED, Outcome.DRY_RUN])
def test_nothing_more_is_moved_for_a_waiting_pod_while_moves_for_it_are_pending(outcome: Outcome | None) -> None:
    """Also for another size of it, and also after a change of leaders, which know only the outcomes."""
    intent = msgspec.structs.replace(an_intent(), trigger="uid-big.2")
    move = a_proposed_move(intent)
    moves = {move.id: move} if outcome is None else after({}, an_outcome(outcome, intent))

    assert pending_triggers(moves) == dict.fromkeys(("uid-big.2", "uid-big"), "pods are being moved for it")
