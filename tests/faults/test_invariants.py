"""Every check detects its violations, and nothing in a valid history."""

import json
from typing import Any

import msgspec
import pytest
from builders import an_intent

from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from faults.histories_of_moves import BAD_MOVES
from faults.history import (
    HARNESS,
    AcknowledgedEvent,
    Alarm,
    BandPod,
    Convergence,
    ExtenderExchange,
    Forbidden,
    Guarantees,
    History,
    Leak,
    NodeSample,
    PodBatch,
    PodChange,
    Post,
    ProcessSample,
    PublishedIntent,
    PublishedOutcome,
    ReclaimerWrite,
    ScheduledPod,
    ScoreResponse,
    Span,
    Window,
)
from faults.invariants import INVARIANTS, MinimumTraffic, violations
from faults.invariants.bus import broken_streams_are_named
from faults.invariants.processes import slope_per_hour

BATCH_CPU = "kubernetes.io/batch-cpu"

GUARANTEES = Guarantees(
    windows=(
        Window(scope="workload", max=1, seconds=10),
        Window(scope="namespace", max=2, seconds=10),
        Window(scope="cluster", max=3, seconds=10),
    ),
    migrating_per_node=1,
    migration_timeout=25.0,
    replicas={"web": 3, "db": 3},
    floors={"web": 2, "db": 2},
    connections={"scorer": 10},
    protected=frozenset({"agent"}),
    node_amounts={BATCH_CPU: 10_000.0},
)


def intent(pod: str, at: float, **fields: Any) -> EvictionIntent:
    times = {"sampled_at": at - 5, "decided_at": at, "expires_at": at + 30}
    epoch = LeaseEpoch(lease_uid="lease", transitions=fields.pop("transitions", 1), holder="descheduler-1")
    return an_intent(pod, strategy=fields.pop("strategy", HARNESS), epoch=epoch, **(times | fields))


def published(pod: str, at: float, **fields: Any) -> PublishedIntent:
    own = {name: fields.pop(name) for name in ("outcome_expected", "epoch_held", "outcome_lost") if name in fields}
    return PublishedIntent(at=at, intent=intent(pod, at, **fields), **own)


def post(pod: str, at: float, **fields: Any) -> Post:
    return Post(**({"at": at, "pod": pod, "workload": pod.partition("-")[0], "uid": f"uid-{pod}"} | fields))


def outcome(pod: str, at: float, kind: Outcome = Outcome.EVICTED) -> PublishedOutcome:
    return PublishedOutcome(at=at, intent_id=f"intent-{pod}", outcome=kind)


def change(pod: str, at: float, what: Any, node: str = "node-a", **fields: Any) -> PodChange:
    return PodChange(at=at, what=what, pod=pod, workload=pod.partition("-")[0], node=node, **fields)


def started(pod: str, at: float, node: str = "node-a") -> list[PodChange]:
    return [change(pod, at, "bound", node), change(pod, at + 0.1, "ready", node)]


def event(**fields: Any) -> AcknowledgedEvent:
    return AcknowledgedEvent(at=101, event_id="event-1", **fields)


def sampled(times: int, period: float = 1.0, **fields: Any) -> tuple[ProcessSample, ...]:
    """A process of the binder; a callable field is called with the time."""
    return tuple(
        ProcessSample(
            at=number * period,
            pid=7,
            **{
                "name": "binder-0", "resident": 80 * 2**20, "descriptors": 20, "tasks": 40, "measured": 5,
                **{name: value(number * period) if callable(value) else value for name, value in fields.items()},
            },
        )
        for number in range(times)
    )  # fmt: skip


def exchange(body: Any = None, **fields: Any) -> ExtenderExchange:
    """A request for two nodes, and a response."""
    if body is None:
        body = [{"Host": "node-a", "Score": 10}, {"Host": "node-b", "Score": 0}]
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ExtenderExchange(**({"at": 103.0, "hosts": ("node-a", "node-b"), "body": text} | fields))


def filtered(kept: list[str], refused: list[str]) -> ExtenderExchange:
    body = {"NodeNames": kept, "FailedAndUnresolvableNodes": dict.fromkeys(refused, "hot"), "FailedNodes": {}}
    return exchange(body, verb="filter")


def batch(count: int = 3, pending: float = 0.1, nodes: int = 10, baseline: float = 0.1, **fields: Any) -> PodBatch:
    """This many pods, evenly distributed, each pending for this many seconds."""

    def pods(seconds: float, nodes: int) -> tuple[ScheduledPod, ...]:
        return tuple(
            ScheduledPod(
                pod=f"batch-{number}",
                created_at=number,
                bound_at=number + seconds if seconds >= 0 else None,
                node=f"node-{number % nodes}" if seconds >= 0 else "",
            )
            for number in range(count)
        )

    default: dict[str, Any] = {"at": 100.0, "what": "a batch", "http_timeout": 0.2}
    return PodBatch(**(default | fields), pods=pods(pending, nodes), baseline=pods(baseline, 10))


def wrote(amount: float | None, **fields: Any) -> ReclaimerWrite:
    """By a reclaimer, of batch-cpu."""
    default: dict[str, Any] = {"at": 110.0, "verb": "patch", "resource": "nodes/status", "node": "node-a"}
    return ReclaimerWrite(**(default | {"program": "reclaimer-0", "amounts": {BATCH_CPU: amount}} | fields))


def band_pod(at: float = 100.0, **fields: Any) -> BandPod:
    return BandPod(**({"at": at, "pod": "reclaimed-0", "node": "node-a", "amounts": {BATCH_CPU: 1_000.0}} | fields))


PODS = [each for name in ("web", "db") for number in range(1, 4) for each in started(f"{name}-{number}", 1)]


def a_history(**fields: Any) -> History:
    """One eviction with its intent, outcome, and replacement on another node."""
    defaults: dict[str, Any] = {
        "posts": (post("web-1", 101),),
        "pods": (*PODS, *started("web-4", 103, "node-b")),
        "intents": (published("web-1", 100),),
        "outcomes": (outcome("web-1", 102),),
        "kept": {"intent-web-1": 1},
        "exchanges": (exchange(), filtered(["node-a"], ["node-b"])),
        "batches": (batch(),),
        "measured": (
            NodeSample(at=1, node="node-a", epoch=1, sequence=1, sampled_at=1),
            NodeSample(at=2, node="node-a", epoch=1, sequence=2, sampled_at=2),
        ),
    }
    return History(**(defaults | fields))


def more(history: History, **fields: Any) -> History:
    """The history with additional events."""
    return msgspec.structs.replace(
        history, **{name: (*getattr(history, name), *events) for name, events in fields.items()}
    )


def test_a_valid_history_has_no_violation() -> None:
    assert violations(a_history(), GUARANTEES) == {name: [] for name in INVARIANTS}


BAD: dict[str, tuple[str, History]] = {
    "two of one workload in its window": (
        "I1",
        more(
            a_history(), posts=[post("web-4", 109)], intents=[published("web-4", 108)], outcomes=[outcome("web-4", 110)]
        ),
    ),
    "too many migrating from a node": (
        "I1",
        a_history(
            posts=(post("web-1", 101), post("db-1", 102)), intents=(published("web-1", 100), published("db-1", 100))
        ),
    ),
    "too few replicas left": (
        "I2",
        a_history(
            posts=(post("web-1", 101), post("web-2", 120)),
            pods=tuple(PODS),
            intents=(published("web-1", 100), published("web-2", 119)),
        ),
    ),
    "a protected pod": ("I3", a_history(posts=(post("agent-1", 101),), intents=(published("agent-1", 100),))),
    "a delete instead of an eviction": (
        "I3",
        more(a_history(), pods=[change("web-2", 101, "deleted", by_equipoise=True)]),
    ),
    "no UID": ("I4", a_history(posts=(post("web-1", 101, uid=None),))),
    "another pod's UID": ("I4", a_history(posts=(post("web-1", 101, uid="uid-web-9"),))),
    "a POST before its intent": ("I4", a_history(posts=(post("web-1", 99),))),
    "no outcome": ("I5", a_history(outcomes=(), kept={})),
    "two different outcomes": ("I5", more(a_history(), outcomes=[outcome("web-1", 105, Outcome.EXPIRED)])),
    "an outcome kept twice": ("I5", a_history(kept={"intent-web-1": 2})),
    "an outcome evicted without an eviction": ("I5", a_history(posts=(post("web-1", 101, code=429),))),
    "an old sample": ("I6", a_history(intents=(published("web-1", 100, sampled_at=-25.0),))),
    "a sample from the future": ("I6", a_history(intents=(published("web-1", 100, sampled_at=110.0),))),
    "a POST after the intent's end": ("I6", a_history(posts=(post("web-1", 131.5),))),
    "a POST that was sent after the intent's end": ("I6", a_history(posts=(post("web-1", 131.5, sent=131.4),))),
    "an older epoch after a newer one": (
        "I7",
        a_history(
            posts=(post("web-1", 101), post("db-1", 120)),
            intents=(published("web-1", 100, transitions=2), published("db-1", 100, transitions=1)),
        ),
    ),
    "a leader without the Lease": ("I7", a_history(intents=(published("web-1", 100, epoch_held=False),))),
    "proposed without coverage": (
        "I8",
        a_history(
            uncovered=(Span(begin=90, end=110),), intents=(published("web-1", 100, strategy="low_node_load"),), posts=()
        ),
    ),
    "evicted without coverage": ("I8", a_history(uncovered=(Span(begin=101, end=110),))),
    "evicted with coverage for scores only": ("I8", a_history(uncovered_for_evictions=(Span(begin=101, end=110),))),
    "a score that is not neutral without coverage": (
        "I8",
        a_history(uncovered=(Span(begin=110, end=120),), scores=(ScoreResponse(at=111, neutral=False),)),
    ),
    "a late response": ("I9", a_history(exchanges=(exchange(seconds=0.11),))),
    "a request that ended late": (
        "I9",
        a_history(exchanges=(exchange(status=None, caller_waited=False, seconds=0.2),)),
    ),
    "no response": ("I9", a_history(exchanges=(exchange(b"", status=None),))),
    "a response that is not JSON": ("I9", a_history(exchanges=(exchange(b'[{"Host":'),))),
    "a response without scores": ("I9", a_history(exchanges=(exchange({}),))),
    "null instead of scores": ("I9", a_history(exchanges=(exchange(b"null"),))),
    "a node is missing": ("I9", a_history(exchanges=(exchange([{"Host": "node-a", "Score": 1}]),))),
    "a node twice": ("I9", a_history(exchanges=(exchange([{"Host": "node-a", "Score": 1}] * 2),))),
    "a float": ("I9", a_history(exchanges=(exchange([{"Host": "node-a", "Score": 7.0}], hosts=("node-a",)),))),
    "a score of 11": ("I9", a_history(exchanges=(exchange([{"Host": "node-a", "Score": 11}], hosts=("node-a",)),))),
    "an invalid response of a scorer that was suspended": (
        "I9",
        a_history(exchanges=(exchange({}, scorer_runs=False),)),
    ),
    "a filter that refuses all nodes": ("I9", a_history(exchanges=(filtered([], ["node-a", "node-b"]),))),
    "a filter that loses a node": ("I9", a_history(exchanges=(filtered(["node-a"], []),))),
    "an empty filter result": ("I9", a_history(exchanges=(exchange({}, verb="filter"),))),
    "a pod is not bound": ("I10", a_history(batches=(batch(pending=-1.0),))),
    "a pod is not bound, without a baseline": ("I10", a_history(batches=(batch(pending=-1.0, http_timeout=None),))),
    "pods are pending for too long": ("I10", a_history(batches=(batch(pending=1.6),))),
    "one node gets a tenth more than 1.5 times its share": ("I12", a_history(batches=(batch(100, nodes=6),))),
    "back to the same node twice": (
        "I11",
        a_history(
            posts=(post("web-1", 101), post("web-4", 120)),
            pods=(*PODS, *started("web-4", 103), *started("web-5", 122)),
            intents=(
                published("web-1", 100, strategy="low_node_load"),
                published("web-4", 119, strategy="low_node_load"),
            ),
        ),
    ),
    "an acknowledged event that the stream lost": ("I13", a_history(events=(event(stored=False),))),
    "another outcome after an eviction, though the stream lost the first": (
        "I5",
        more(
            a_history(intents=(published("web-1", 100, outcome_lost=True),)),
            outcomes=[outcome("web-1", 105, Outcome.EXPIRED)],
        ),
    ),
    "too much memory": ("I14", a_history(processes=sampled(3, resident=300 * 2**20))),
    "memory that grows": (
        "I14",
        a_history(processes=sampled(60, resident=lambda at: 80 * 2**20 + at * 2**20)),
    ),
    "memory that grows slowly for hours": (
        "I14",
        a_history(processes=sampled(300, 60.0, resident=lambda at: 80 * 2**20 + int(at / 3600 * 2 * 2**20))),
    ),
    "too many file descriptors": (
        "I14",
        a_history(processes=sampled(3, descriptors=lambda at: 101 if at == 1 else 20)),
    ),
    "file descriptors that remain when the clients are gone": (
        "I14",
        a_history(processes=sampled(3, name="scorer-0", descriptors=101)),
    ),
    "too many tasks": ("I14", a_history(processes=sampled(3, tasks=201))),
    "an event loop that is late": ("I14", a_history(processes=sampled(60, late=lambda at: at % 10 == 0, worst=0.4))),
    "a cache that stays different": (
        "I15",
        a_history(convergences=(Convergence(at=110, seconds=60.1, different=("two deschedulers lead",)),)),
    ),
    "a cache that is equal too late": ("I15", a_history(convergences=(Convergence(at=110, seconds=61),))),
    "a token in a log": ("I19", a_history(leaks=(Leak(at=110, log="binder-0.log", what="the token of binder-0"),))),
    "an older value after a newer one": (
        "I16",
        more(a_history(), measured=[NodeSample(at=3, node="node-a", epoch=1, sequence=1, sampled_at=3)]),
    ),
    "an older sample in a newer message": (
        "I16",
        more(a_history(), measured=[NodeSample(at=3, node="node-a", epoch=2, sequence=1, sampled_at=1)]),
    ),
    "a real eviction in a dry run": ("I17", a_history(dry_runs=(Span(begin=0, end=200),))),
    "a POST long after the pause": ("I18", a_history(paused=(Span(begin=95, end=200),))),
    "evicted after its workload was scaled to 1": (
        "I20",
        a_history(forbidden=(Forbidden(begin=97, end=200, why="scaled to 1", namespace="shop", workload="web"),)),
    ),
    "evicted after its pod opted out": (
        "I20",
        a_history(forbidden=(Forbidden(begin=97, end=200, why="it opted out", uid="uid-web-1"),)),
    ),
    "less than bound pods request": ("I21", a_history(reclaimer_writes=(wrote(999),), band_pods=(band_pod(),))),
    "a name removed that pods use": ("I21", a_history(reclaimer_writes=(wrote(None),), band_pods=(band_pod(),))),
    "more than the node has": ("I22", a_history(reclaimer_writes=(wrote(10_001),))),
    "less than nothing": ("I22", a_history(reclaimer_writes=(wrote(-1),))),
    "a label of a node": ("I23", a_history(reclaimer_writes=(wrote(1_000, others=("labels",)),))),
    "a refused write of a pod": (
        "I23",
        a_history(reclaimer_writes=(wrote(1_000, resource="pods", executed=False),)),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_violates_its_invariant(name: str) -> None:
    invariant, history = BAD[name]
    assert violations(history, GUARANTEES)[invariant]


def test_every_invariant_has_a_bad_history() -> None:
    """So every check is known to be able to fail."""
    assert {invariant for invariant, _ in (*BAD.values(), *BAD_MOVES.values())} == set(INVARIANTS)


@pytest.mark.parametrize(
    "history",
    [
        a_history(posts=(post("web-1", 101, code=429),), outcomes=(outcome("web-1", 102, Outcome.BLOCKED_PDB),)),
        a_history(posts=(post("web-1", 101, dry_run=True),), outcomes=(outcome("web-1", 102, Outcome.DRY_RUN),)),
        a_history(posts=(post("web-1", 101), post("web-1", 101.5))),
        a_history(
            posts=(post("web-1", 101), post("db-1", 127)),
            pods=tuple(PODS),
            intents=(published("web-1", 100), published("db-1", 126)),
            outcomes=(outcome("web-1", 102), outcome("db-1", 128)),
            kept={"intent-web-1": 1, "intent-db-1": 1},
        ),
        a_history(outcomes=(outcome("web-1", 102), outcome("web-1", 150))),
        a_history(posts=(), outcomes=(), kept={}, intents=(published("web-1", 100, outcome_expected=False),)),
        a_history(paused=(Span(begin=97, end=200),)),
        a_history(events=(event(), event(stored=False, loss_expected=True))),
        a_history(
            posts=(),
            intents=(published("web-1", 100, outcome_lost=True),),
            outcomes=(outcome("web-1", 102, Outcome.REJECTED_STALE), outcome("web-1", 105, Outcome.EXPIRED)),
        ),
        a_history(forbidden=(Forbidden(begin=98.5, end=200, why="all evictions"),)),
        a_history(forbidden=(Forbidden(begin=90, end=200, why="another workload", workload="db"),)),
        a_history(forbidden=(Forbidden(begin=90, end=100, why="undone before"),)),
        more(a_history(posts=(post("web-1", 101, code=409),)), pods=[change("web-1", 100.5, "deleted")]),
        a_history(
            uncovered_for_evictions=(Span(begin=110, end=120),), scores=(ScoreResponse(at=111, neutral=False),)
        ),
        a_history(processes=sampled(300, 60.0, resident=lambda at: (80 + (at % 1800 == 0) * 30) * 2**20)),
        a_history(processes=sampled(60, resident=lambda at: int(min(100, 40 + 8 * at)) * 2**20)),
        a_history(processes=sampled(60, resident=lambda at: int(min(45, at)) * 2**21, ready=lambda at: at > 40)),
        a_history(processes=sampled(3, name="scorer-0", descriptors=lambda at: 110 if at == 1 else 20)),
        a_history(posts=(post("web-1", 131.5, sent=101),)),
        a_history(posts=(post("web-1", 101, uid=None, code=504), post("web-1", 102))),
        a_history(processes=sampled(60, late=lambda at: at == 10, worst=5.0)),
        a_history(convergences=(Convergence(at=110, seconds=59),)),
        a_history(exchanges=(exchange(b"", status=503), exchange(b"", status=None, caller_waited=False))),
        a_history(exchanges=(exchange(b"", status=None, seconds=9.0, scorer_runs=False),)),
        a_history(reclaimer_writes=(wrote(0),), band_pods=(band_pod(at=106.0),)),
        a_history(reclaimer_writes=(wrote(0),), band_pods=(band_pod(ended_at=109.0),)),
        a_history(reclaimer_writes=(wrote(0),), band_pods=(band_pod(node="node-b"),)),
        a_history(reclaimer_writes=(wrote(20_000, executed=False),)),
        a_history(batches=(batch(pending=1.4), batch(pending=2.0, baseline=1.0))),
        a_history(batches=(batch(pending=60.0, http_timeout=None),)),
        a_history(batches=(batch(90, nodes=1), batch(100, nodes=7))),
    ],
    ids=[
        "blocked", "a dry run", "a pod evicted twice", "a replica that is no longer waited for",
        "an outcome published again", "an intent that the stream lost",
        "within the time that a pause may take", "events kept, or lost as expected", "a rejection that was lost",
        "forbidden since a read that may be so old",
        "another workload is forbidden", "forbidden no longer", "deleted by another client",
        "scores with coverage for scores only", "peaks of memory", "memory that grows during the start",
        "memory that grows before it is ready", "descriptors of a scorer with clients",
        "a request on the way for 30 s", "a request that was not read",
        "one late measurement", "convergence in time",
        "a scorer that refuses, or whose caller leaves", "a scorer that was suspended",
        "bound too late to be known", "a pod that has ended", "a pod of another node", "a refused amount",
        "pods pending for two timeouts", "times that cannot be compared", "few pods on one node",
    ],
)  # fmt: skip
def test_an_allowed_history_has_no_violation(history: History) -> None:
    """Refusals, repetitions and losses violate nothing."""
    assert violations(history, GUARANTEES) == {name: [] for name in INVARIANTS}


def test_violations_before_the_run_are_not_reported_again() -> None:
    """They belong to another run, but their evictions count in the windows of this one."""
    before = a_history(since=105.0, posts=(post("web-1", 101, uid=None),), outcomes=(), kept={})
    assert violations(before, GUARANTEES) == {name: [] for name in INVARIANTS}
    span, scores = Span(begin=90, end=100), (ScoreResponse(at=95, neutral=False),)
    assert violations(a_history(uncovered=(span,), scores=scores, posts=()), GUARANTEES)["I8"]
    assert violations(a_history(since=105.0, uncovered=(span,), scores=scores), GUARANTEES)["I8"] == []
    after = more(
        a_history(since=105.0),
        posts=[post("web-4", 109)],
        intents=[published("web-4", 108)],
        outcomes=[outcome("web-4", 110)],
    )
    assert violations(after, GUARANTEES)["I1"]


@pytest.mark.parametrize(
    ("times", "wrong"),
    [
        ({"named": 5.0, "cleared": 5.0}, ""),
        ({"named": None, "cleared": 5.0}, "not named within 60 s"),
        ({"named": 61.0, "cleared": 5.0}, "not named within 60 s"),
        ({"named": 5.0, "cleared": None}, "still named 60 s after"),
    ],
)
def test_a_broken_stream_must_be_named_and_its_repair_noticed(times: dict[str, float | None], wrong: str) -> None:
    """By /readyz, in time; those of earlier runs are not reported again."""
    history = a_history(alarms=(Alarm(at=101, what="a stream deleted", **times),))
    found = broken_streams_are_named(history, GUARANTEES)
    assert len(found) == bool(wrong)
    assert wrong in "".join(found)
    assert not broken_streams_are_named(msgspec.structs.replace(history, since=200), GUARANTEES)


def test_growth_of_memory() -> None:
    """In bytes per hour."""
    samples = list(sampled(3, 10.0, resident=lambda at: 10.0 + at / 5))
    assert slope_per_hour(samples) == pytest.approx(0.2 * 3_600)


def test_a_run_without_traffic_is_inconclusive() -> None:
    assert MinimumTraffic(intents=1, evictions=1).missing(a_history()) == ""
    assert "0 of 1 intents" in MinimumTraffic(intents=1, evictions=1).missing(History())
    assert "1 of 2 evictions" in MinimumTraffic(intents=1, evictions=2).missing(a_history())
