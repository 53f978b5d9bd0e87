"""Histories of moves without a gap: a valid one, and one for each way to violate an invariant."""

import math
from typing import Any

import msgspec
from builders import an_intent

from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.lease import LeaseEpoch
from faults.history import HARNESS, Guarantees, History, PodChange, Post, PublishedIntent, PublishedOutcome, Span
from faults.history_of_moves import (
    Approvals,
    LeftOvers,
    MovesHistory,
    ReadyEndpoints,
    Relabeling,
    Required,
    Rollout,
)

GUARANTEES = Guarantees(max_moves=2, freshness=8.0)


def intent(pod: str, at: float, **fields: Any) -> PublishedIntent:
    epoch = LeaseEpoch(lease_uid="lease", transitions=fields.pop("transitions", 1), holder="descheduler-1")
    own: dict[str, Any] = {"namespace": "moves", "strategy": HARNESS, "epoch": epoch}
    times: dict[str, Any] = {"sampled_at": at - 5, "decided_at": at, "expires_at": at + 12}
    return PublishedIntent(at=at, intent=an_intent(pod, **(own | times | fields)))


def relabeled(pod: str, at: float, value: str | None = None, **fields: Any) -> Relabeling:
    """By default it is detached."""
    own = {"at": at, "pod": pod, "workload": pod.partition("-")[0], "uid": f"uid-{pod}", "value": value}
    return Relabeling(**(own | fields))


def evicted(pod: str, at: float, **fields: Any) -> Post:
    own = {"at": at, "namespace": "moves", "pod": pod, "workload": pod.partition("-")[0], "uid": f"uid-{pod}"}
    return Post(**(own | fields))


def ended(pod: str, at: float, outcome: Outcome = Outcome.EVICTED) -> PublishedOutcome:
    return PublishedOutcome(at=at, intent_id=f"intent-{pod}", outcome=outcome)


def endpoints(*counts: tuple[float, int]) -> tuple[ReadyEndpoints, ...]:
    return tuple(ReadyEndpoints(at=at, workload="web", ready=ready) for at, ready in counts)


def required(*counts: tuple[float, int]) -> tuple[Required, ...]:
    return tuple(Required(at=at, workload="web", replicas=replicas) for at, replicas in counts)


def moved(**fields: Any) -> MovesHistory:
    """The pod web-1 is detached at 101, and its replacement is an endpoint from 103 on."""
    defaults: dict[str, Any] = {
        "relabelings": (relabeled("web-1", 101),),
        "endpoints": endpoints((50, 1), (103, 2), (110, 1)),
        "required": required((60, 1)),
        "approvals": (Approvals(at=99, uids=frozenset({"uid-web-1", "uid-db-1", "uid-app-1", "uid-web-2"})),),
        "left_overs": (LeftOvers(at=120, seconds=3),),
    }
    return MovesHistory(**(defaults | fields))


def a_move(moves: MovesHistory | None = None, **fields: Any) -> History:
    """The pod web-1 is moved without a gap: it is evicted at 110, long after its intent has expired."""
    defaults: dict[str, Any] = {
        "since": 90.0,
        "intents": (intent("web-1", 100),),
        "posts": (evicted("web-1", 110),),
        "outcomes": (ended("web-1", 112),),
        "kept": {"intent-web-1": 1},
        "moves": moved() if moves is None else moves,
    }
    return History(**(defaults | fields))


def restored(**fields: Any) -> History:
    """The pod web-1 gets its label back at 110."""
    moves = moved(relabelings=(relabeled("web-1", 101), relabeled("web-1", 110, "hash")), **fields)
    return a_move(moves, posts=(), outcomes=(ended("web-1", 112, Outcome.FAILED),))


def several(*pods: str) -> History:
    """These pods are detached together, one after the other."""
    return a_move(
        moved(relabelings=tuple(relabeled(pod, 101 + number) for number, pod in enumerate(pods))),
        intents=tuple(intent(pod, 100) for pod in pods),
        posts=tuple(evicted(pod, 110 + number) for number, pod in enumerate(pods)),
        outcomes=tuple(ended(pod, 115) for pod in pods),
        kept={f"intent-{pod}": 1 for pod in pods},
    )


def later(history: History, since: float) -> History:
    return msgspec.structs.replace(history, since=since)


BAD_MOVES: dict[str, tuple[str, History]] = {
    "an endpoint too few for a moment": ("I24", a_move(moved(endpoints=endpoints((50, 1), (110, 0), (110.01, 1))))),
    "an endpoint too few until the end": ("I24", a_move(moved(endpoints=endpoints((50, 1), (110, 0))))),
    "too few endpoints after a scale-up": (
        "I24",
        a_move(moved(required=required((60, 1), (95, 2)), endpoints=endpoints((50, 1), (94, 2), (110, 1)))),
    ),
    "a pod is left": ("I25", a_move(moved(left_overs=(LeftOvers(at=180, seconds=60, pods=("web-1",)),)))),
    "a move without an outcome": ("I26", a_move(outcomes=(), kept={})),
    "a move with two outcomes": (
        "I26",
        a_move(outcomes=(ended("web-1", 112), ended("web-1", 113, Outcome.FAILED))),
    ),
    "a move whose outcome is kept twice": ("I26", a_move(kept={"intent-web-1": 2})),
    "a restored pod that is reported as evicted": (
        "I26",
        msgspec.structs.replace(restored(), outcomes=(ended("web-1", 112),)),
    ),
    "an evicted pod that is reported as restored": ("I26", a_move(outcomes=(ended("web-1", 112, Outcome.FAILED),))),
    "detached without an intent": ("I27", a_move(intents=())),
    "detached without an approval": ("I27", a_move(moved(approvals=()))),
    "detached long after the approval ended": (
        "I27",
        a_move(
            moved(
                approvals=(
                    Approvals(at=80, uids=frozenset({"uid-web-1"})),
                    Approvals(at=95, uids=frozenset()),
                )
            )
        ),
    ),
    "three pods at the same time": ("I28", several("web-1", "db-1", "app-1")),
    "two pods of a workload": ("I28", several("web-1", "web-2")),
    "restored during a rollout": ("I29", restored(rollouts=(Rollout(at=105, workload="web"),))),
    "detached for an expired intent": ("I6", a_move(moved(relabelings=(relabeled("web-1", 114),)))),
    "detached for an earlier leader": (
        "I7",
        a_move(
            moved(relabelings=(relabeled("web-1", 101), relabeled("db-1", 103))),
            intents=(intent("web-1", 100, transitions=2), intent("db-1", 100, transitions=1)),
            posts=(evicted("web-1", 110), evicted("db-1", 111)),
            outcomes=(ended("web-1", 112), ended("db-1", 113)),
        ),
    ),
    "detached after a pause": ("I18", a_move(paused=(Span(begin=95, end=200),))),
}

ALLOWED_MOVES: dict[str, History] = {
    "a move": a_move(),
    "a pod that is restored": restored(),
    "restored before a rollout is known": restored(rollouts=(Rollout(at=108, workload="web"),)),
    "restored during a rollout of another workload": restored(rollouts=(Rollout(at=102, workload="db"),)),
    "restored after an earlier rollout": restored(rollouts=(Rollout(at=95, workload="web"),)),
    "two pods at the same time": several("web-1", "db-1"),
    "a third pod after the first has left": a_move(
        moved(relabelings=(relabeled("web-1", 101), relabeled("db-1", 102), relabeled("app-1", 111))),
        intents=(intent("web-1", 100), intent("db-1", 100), intent("app-1", 110)),
        posts=(evicted("web-1", 110), evicted("db-1", 120), evicted("app-1", 121)),
        outcomes=(ended("web-1", 112), ended("db-1", 122), ended("app-1", 123)),
    ),
    "scaled down before an endpoint left": a_move(
        moved(required=required((60, 2), (104, 1)), endpoints=endpoints((50, 2), (105, 1)))
    ),
    "added replicas that are not ready yet": a_move(
        moved(required=required((60, 1), (115, 3)), endpoints=endpoints((50, 1), (109, 2), (112, 3)))
    ),
    "detached shortly after the approval ended": a_move(
        moved(
            approvals=(Approvals(at=80, uids=frozenset({"uid-web-1"})), Approvals(at=98, uids=frozenset())),
        )
    ),
    "evicted in a pause that began during the move": a_move(paused=(Span(begin=102, end=200),)),
    "detached a second time": a_move(
        moved(relabelings=(relabeled("web-1", 40), relabeled("web-1", 50, "hash"), relabeled("web-1", 101))),
    ),
    "a label that a tenant has restored": a_move(
        moved(relabelings=(relabeled("web-1", 101), relabeled("web-1", 102, "hash", by_service=False))),
        posts=(),
        outcomes=(ended("web-1", 112, Outcome.FAILED),),
    ),
    "a pod that a tenant has detached": a_move(
        moved(relabelings=(relabeled("web-1", 101, "other", by_service=False),))
    ),
    "a pod that others have deleted": a_move(
        posts=(),
        pods=(PodChange(at=105, what="deleted", namespace="moves", pod="web-1", workload="web"),),
        outcomes=(ended("web-1", 112, Outcome.ALREADY_GONE),),
    ),
    "an earlier run": later(a_move(moved(approvals=(), left_overs=()), outcomes=(), kept={}), math.inf),
}
