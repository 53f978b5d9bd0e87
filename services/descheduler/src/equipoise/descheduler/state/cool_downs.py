"""What was moved, or was not to be moved, is left alone for a while."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import LoadReduction, NodeCooldown
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome


class CoolDown(Section, frozen=True, kw_only=True):
    """How long something is left alone after it was moved, or was not to be moved."""

    eviction: Duration = Duration(300)
    """A workload, after one of its pods was evicted."""

    refusal: Duration = Duration(600)
    """A pod whose eviction was refused; everything, when replacements come late.

    What a limit of evictions per time refused is left alone until there is room again.
    """

    same_node_return: Duration = Duration(1_800)
    """A workload whose replacement came back to the node it had left; twice that for the workload on that node.

    Doubles with every further return.
    """

    no_relief: Duration = Duration(1_800)
    """A node whose load, one window after evictions from it, is not lower by half of what was expected, twice in a row.

    Doubles with every further time.
    """

    longest: Duration = Duration(86_400)
    """No cool-down grows beyond; a workload that did not return for so long starts afresh."""


MOVED = (Outcome.EVICTED, Outcome.DRY_RUN)
"""A dry run cools down like a real eviction, or it would propose the same pod for ever."""

GONE = (Outcome.ALREADY_GONE, Outcome.UID_CHANGED)


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Left alone until then, and why."""

    until: float
    why: str
    returns: int = 0
    """Replacements in a row that came back to their node; of a node: trials in a row after which it was no better."""


CoolDowns = Mapping[str, Rest]
"""By pod UID, by workload, by workload and node, by namespace, by node, and for everything."""

EVERYTHING = "everything"

FRUITLESS_TRIALS = 2
"""After so many in a row a node is left alone: one may be a neighbour's peak, and says little of the node."""

_NODE = "node "


def _pair(workload: Workload, node: str) -> str:
    return f"{workload}@{node}"


def _of_namespace(name: str) -> str:
    return f"namespace {name}"


def _scope(outcome: EvictionOutcome) -> str:
    """What else the limit that refused stops: the key of its rest, "" when nothing but this pod."""
    match outcome.limit_scope:
        case "cluster":
            return EVERYTHING
        case "namespace":
            return _of_namespace(outcome.namespace)
        case "workload" if outcome.workload is not None:
            return str(outcome.workload)
        case _:
            return ""


def _with(cool_downs: CoolDowns, key: str, rest: Rest) -> dict[str, Rest]:
    """The longer rest wins: a short one must not end a long one early."""
    before = cool_downs.get(key)
    if before is not None and before.until >= rest.until:
        rest = before
    return {**cool_downs, key: rest}


def after_outcome(cool_downs: CoolDowns, outcome: EvictionOutcome, settings: CoolDown) -> dict[str, Rest]:
    """The cool-downs once an intent's outcome is known."""
    if outcome.outcome in GONE:
        return dict(cool_downs)
    if outcome.outcome in MOVED:
        until = outcome.settled_at + settings.eviction
        key = outcome.pod_uid if outcome.workload is None else str(outcome.workload)
        kept = cool_downs.get(key)
        rest = Rest(until=until, why="a pod of its workload was moved just now", returns=kept.returns if kept else 0)
        return _with(cool_downs, key, rest)
    scope = _scope(outcome)
    if scope:
        before = cool_downs.get(scope)
        until = outcome.settled_at + settings.refusal if outcome.retry_at is None else outcome.retry_at
        why = f"limits.{outcome.limit} has no room"
        return _with(cool_downs, scope, Rest(until=until, why=why, returns=before.returns if before else 0))
    why = f"its last eviction was {outcome.outcome.value}"
    return _with(cool_downs, outcome.pod_uid, Rest(until=outcome.settled_at + settings.refusal, why=why))


def after_return(
    cool_downs: CoolDowns, workload: Workload, node: str, settings: CoolDown, now: float
) -> dict[str, Rest]:
    """The cool-downs once a replacement was seen on the node that its predecessor had left."""
    before = cool_downs.get(str(workload))
    returns = 1 + (before.returns if before is not None else 0)
    length = min(settings.longest, settings.same_node_return * 2.0 ** (min(returns, 32) - 1))
    why = f"its workload's last replacement came back to {node}"
    alone = Rest(until=now + length, why=why, returns=returns)
    both = Rest(until=now + min(settings.longest, 2 * length), why=why, returns=returns)
    return _with(_with(cool_downs, str(workload), alone), _pair(workload, node), both)


def after_relief(cool_downs: CoolDowns, relief: LoadReduction, settings: CoolDown, now: float) -> dict[str, Rest]:
    """The cool-downs once it is known whether a node got better after evictions from it."""
    key = f"{_NODE}{relief.node}"
    if relief.reduced:
        return {name: rest for name, rest in cool_downs.items() if name != key}
    before = cool_downs.get(key)
    trials = 1 + (before.returns if before is not None else 0)
    beyond = trials - FRUITLESS_TRIALS
    length = min(settings.longest, settings.no_relief * 2.0 ** min(beyond, 32)) if beyond >= 0 else 0.0
    until = max(now + length, before.until if before is not None else now)
    why = f"it did not get better, {trials} times in a row: {_shortfall(relief)}"
    return {**cool_downs, key: Rest(until=until, why=why, returns=trials)}


def _shortfall(relief: LoadReduction) -> str:
    """As people read it: of what was over its mark, what was expected and what came of it."""
    parts = []
    for name in relief.over:
        scale, unit = (1.0, "cores") if name == "cpu" else (2.0**30, "GiB")
        fallen = (getattr(relief.before, name) - getattr(relief.after, name)) / scale
        parts.append(f"{name} should have fallen by {getattr(relief.expected, name) / scale:.2f} {unit}, ")
        parts[-1] += f"and fell by {fallen:.2f}" if fallen >= 0 else f"and rose by {-fallen:.2f}"
    return "; ".join(parts)


def resting_node(cool_downs: CoolDowns, node: str, now: float) -> str:
    """Why nothing is taken from this node at present; "" when it may be."""
    rest = cool_downs.get(f"{_NODE}{node}")
    return rest.why if rest is not None and rest.until > now else ""


def resting_nodes(cool_downs: CoolDowns, now: float) -> list[NodeCooldown]:
    """All that are left alone at present, in the order of names."""
    return [
        NodeCooldown(node=key.removeprefix(_NODE), until=rest.until, why=rest.why)
        for key, rest in sorted(cool_downs.items())
        if key.startswith(_NODE) and rest.until > now
    ]


def resting(
    cool_downs: CoolDowns, *, uid: str, namespace: str, workload: Workload | None, node: str, now: float
) -> str:
    """Why this pod is left alone at present; "" when it is not."""
    keys = [EVERYTHING, _of_namespace(namespace), uid]
    if workload is not None:
        keys += [str(workload), _pair(workload, node)]
    rests = (cool_downs.get(key) for key in keys)
    return next((rest.why for rest in rests if rest is not None and rest.until > now), "")


def pruned(cool_downs: CoolDowns, settings: CoolDown, now: float) -> dict[str, Rest]:
    """Without what ended long ago; returns are remembered for `longest` after their cool-down."""
    return {
        key: rest for key, rest in cool_downs.items() if rest.until + (settings.longest if rest.returns else 0.0) > now
    }
