"""What was done is remembered for as long as it matters."""

from typing import Any

import msgspec
from builders import NOW, a_workload, an_intent
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.fit import FitPod
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.abnormal_counts import NodeObservation
from equipoise.descheduler.state.cool_downs import CooldownSettings, Cooldowns, after_outcome, after_return, pruned, resting
from equipoise.descheduler.state.pending_moves import ReplacementCandidate, landed
from equipoise.descheduler.state.tracker import Tracker

SETTINGS = DeschedulerSettings()
COOL_DOWN = CooldownSettings()
FIT = FitPod(uid="uid-web-1", namespace="shop", name="web-1")


def an_outcome(outcome: Outcome, intent: EvictionIntent | None = None, **fields: Any) -> EvictionOutcome:
    intent = intent or an_intent()
    told = {
        name: getattr(intent, name)
        for name in ("pod_uid", "namespace", "pod", "node", "workload", "target", "reason", "relief", "decided_at")
    }
    return EvictionOutcome(**({"intent_id": intent.id, "outcome": outcome, "settled_at": NOW, **told} | fields))


def an_arrival(uid: str = "uid-new", node: str = "node-b", created_at: float = NOW + 1, name: str = "") -> ReplacementCandidate:
    return ReplacementCandidate(uid=uid, workload=a_workload(), node=node, created_at=created_at, name=name)


def rests(
    cool_downs: Cooldowns,
    now: float,
    uid: str = "uid-other",
    node: str = "node-a",
    namespace: str = "shop",
    app: str = "web",
) -> str:
    return resting(cool_downs, uid=uid, namespace=namespace, workload=a_workload(app), node=node, now=now)


def test_an_eviction_rests_its_workload() -> None:
    """Any pod of it, for the time configured."""
    cool_downs = after_outcome({}, an_outcome(Outcome.EVICTED), COOL_DOWN)

    assert rests(cool_downs, NOW + 299)
    assert not rests(cool_downs, NOW + 300)


def test_a_dry_run_rests_like_a_real_one() -> None:
    """Or it would propose the same pod at every evaluation."""
    assert rests(after_outcome({}, an_outcome(Outcome.DRY_RUN), COOL_DOWN), NOW + 1)


def test_a_refusal_rests_the_pod_alone() -> None:
    """Its siblings may still be movable; a pod that was gone before needs no rest."""
    cool_downs = after_outcome({}, an_outcome(Outcome.BLOCKED_PDB), COOL_DOWN)

    assert rests(cool_downs, NOW + 1, uid="uid-web-1") == "its last eviction was blocked_pdb"
    assert not rests(cool_downs, NOW + 1)
    assert after_outcome({}, an_outcome(Outcome.ALREADY_GONE), COOL_DOWN) == {}


def test_a_full_limit_rests_what_it_is_about() -> None:
    """Until it has room again, and no pod alone: it did nothing wrong."""

    def refused(limit: str, room_at: float | None = NOW + 90) -> Cooldowns:
        outcome = an_outcome(Outcome.REJECTED_LIMIT, limit=limit, room_at=room_at)
        return after_outcome({}, outcome, COOL_DOWN)

    workload, namespace = refused("evictionsPerWorkload"), refused("evictionsPerNamespace")
    assert rests(workload, NOW + 89)
    assert not rests(workload, NOW + 90, uid="uid-web-1")
    assert not rests(workload, NOW, app="db")
    assert rests(namespace, NOW, app="db") == "limits.evictionsPerNamespace has no room"
    assert not rests(namespace, NOW, app="db", namespace="bank")
    assert rests(refused("evictionsPerCluster"), NOW, app="db", namespace="bank")
    assert rests(refused("lateReplacements", None), NOW + 599, app="db", namespace="bank")
    assert not rests(refused("inMigrationPerNode", None), NOW)
    assert rests(refused("inMigrationPerNode", None), NOW, uid="uid-web-1")


def test_returns_rest_longer_and_longer() -> None:
    """Each return doubles it, on the node it came back to twice as long, and never beyond the longest."""
    once = after_return({}, a_workload(), "node-a", COOL_DOWN, NOW)
    twice = after_return(once, a_workload(), "node-a", COOL_DOWN, NOW + 4_000)
    often = once
    for _ in range(60):
        often = after_return(often, a_workload(), "node-a", COOL_DOWN, NOW)

    assert rests(once, NOW + 1_799, node="node-b")
    assert not rests(once, NOW + 1_800, node="node-b")
    assert rests(once, NOW + 3_599)
    assert rests(twice, NOW + 7_599, node="node-b")
    assert rests(often, NOW + 86_399)
    assert not rests(often, NOW + 86_400)


@given(st.lists(st.sampled_from(list(Outcome)), max_size=12), st.lists(st.floats(0, 5_000), min_size=12, max_size=12))
def test_no_outcome_shortens_a_rest(outcomes: list[Outcome], times: list[float]) -> None:
    """Whatever comes after, a rest lasts as long as it was meant to."""
    cool_downs = after_return({}, a_workload(), "node-a", COOL_DOWN, NOW)
    for outcome, time in zip(outcomes, times, strict=False):
        cool_downs = after_outcome(cool_downs, an_outcome(outcome, settled_at=NOW + time), COOL_DOWN)

    assert rests(pruned(cool_downs, COOL_DOWN, NOW + 1_799), NOW + 1_799, node="node-b")


def proposed(intent: EvictionIntent | None = None) -> Tracker:
    memory = Tracker(SETTINGS.tracker)
    memory.proposed(intent or an_intent(), known=["uid-web-1", "uid-web-2"], fit=FIT)
    return memory


def test_an_eviction_stays_under_way_until_its_replacement_is_seen() -> None:
    """Not before it is on a node, and not for a pod that was there all along."""
    memory = proposed()
    memory.settled(an_outcome(Outcome.EVICTED), NOW)

    for arrivals in ([], [an_arrival("uid-web-2")], [an_arrival(node="")]):
        assert memory.tidied(lambda _, told=arrivals: told, NOW + 1) == []
        assert memory.flights
    (landing,) = memory.tidied(lambda _: [an_arrival(name="web-9")], NOW + 1)
    assert (landing.pod, landing.node, landing.target) == ("web-1", "node-a", "node-b")
    assert (landing.replacement, landing.landed_on) == ("web-9", "node-b")
    assert not memory.flights


def test_a_replacement_on_the_source_is_a_return() -> None:
    """It is told, and its workload rests on."""
    memory = proposed()
    memory.settled(an_outcome(Outcome.EVICTED), NOW)

    (back,) = memory.tidied(lambda _: [an_arrival(node="node-a")], NOW + 1)

    assert back.landed_on == back.node == "node-a"
    assert "came back to node-a" in rests(memory.cool_downs, NOW + 1_000)


def test_every_other_outcome_ends_a_move() -> None:
    """What was not evicted is not under way."""
    for outcome in set(Outcome) - {Outcome.EVICTED}:
        memory = proposed()
        memory.settled(an_outcome(outcome), NOW)
        assert not memory.flights


def test_moves_are_given_up_in_the_end() -> None:
    """An intent nobody settles, and a replacement nobody sees, are not waited for for ever."""
    memory = proposed()
    memory.tidied(lambda _: [], NOW + 359)
    assert memory.flights
    memory.tidied(lambda _: [], NOW + 361)
    assert not memory.flights

    memory = proposed()
    memory.settled(an_outcome(Outcome.EVICTED), NOW)
    memory.tidied(lambda _: [], NOW + 599)
    assert memory.flights
    memory.tidied(lambda _: [], NOW + 601)
    assert not memory.flights


def test_a_new_leader_learns_of_evictions_from_the_bus() -> None:
    """An eviction of another leader's is under way as well, and lands by the time of its replacement."""
    memory = Tracker(SETTINGS.tracker)
    memory.settled(an_outcome(Outcome.EVICTED), NOW + 60)
    (flight,) = memory.flights.values()

    assert (flight.target, flight.relief.cpu, flight.fit) == ("node-b", 1.0, None)
    assert landed(memory.flights, [an_arrival(created_at=NOW - 5)]) == {}
    assert landed(memory.flights, [an_arrival(created_at=NOW)]) == {flight.id: an_arrival(created_at=NOW)}


def test_old_outcomes_are_no_moves_under_way() -> None:
    """What the bus kept for a day is history."""
    memory = Tracker(SETTINGS.tracker)
    memory.settled(an_outcome(Outcome.EVICTED), NOW + 3_600)

    assert not memory.flights


def test_one_pod_replaces_one() -> None:
    """Two evictions of a workload wait for two pods."""
    memory = Tracker(SETTINGS.tracker)
    for name in ("web-1", "web-2"):
        memory.settled(an_outcome(Outcome.EVICTED, an_intent(name)), NOW)

    assert len(landed(memory.flights, [an_arrival()])) == 1
    assert len(landed(memory.flights, [an_arrival(), an_arrival("uid-newer")])) == 2


def test_an_eviction_restarts_the_count_of_its_node_only() -> None:
    """Other nodes are as hot as they were."""
    memory = Tracker(msgspec.structs.replace(SETTINGS, consecutive_abnormalities=1, interval=Duration(1)).tracker)
    observations_of = [NodeObservation(node=name, abnormal=True, sampled_at=NOW) for name in ("node-a", "node-b")]
    memory.count("low_node_load", observations_of, NOW)

    memory.settled(an_outcome(Outcome.EVICTED), NOW)

    assert memory.abnormal("low_node_load") == {"node-b"}
