"""Cooldowns: the times until which no intent may concern a pod, workload, namespace or node."""

from collections.abc import Mapping

import msgspec

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.eviction.campaign_limits import CAMPAIGN_LIMITS
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import LoadReduction, NodeCooldown
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.values.move import waiting_uid


class CooldownSettings(Section, frozen=True, kw_only=True):
    """How long no further move is proposed after an eviction, a refusal or a move without effect."""

    eviction: Duration = Duration(300)
    """The cooldown of a workload, after one of its pods was evicted; of a waiting pod, after pods were moved for it.

    The latter doubles each time for the same pod. For the same size of the pod, the cooldown is `max`.
    """

    refusal: Duration = Duration(600)
    """The cooldown of a pod whose eviction was refused; of everything, when replacements come late.

    After a refusal by a limit of evictions per time, the cooldown ends when that limit has capacity again.
    """

    same_node_return: Duration = Duration(1_800)
    """The cooldown of a workload whose replacement was scheduled to the evicted node; twice as long for that workload
    on that node.

    Doubles with every further return.
    """

    no_load_reduction: Duration = Duration(1_800)
    """The cooldown of a node whose load did not fall by half of what was expected, one window after evictions, twice in
    a row.

    Doubles each further time.
    """

    max: Duration = Duration(86_400)
    """The maximum cooldown. Returns no longer count when there was none for this long after a cooldown."""


MOVED = (Outcome.EVICTED, Outcome.DRY_RUN)
"""A dry run starts the same cooldown as an eviction, for dry runs only."""

LEFT = (Outcome.ALREADY_GONE, Outcome.UID_CHANGED)
"""The pod has left its node without being moved."""

NO_REFUSALS = (*LEFT, Outcome.REJECTED_STALE, Outcome.EXPIRED)
"""Outcomes that are no reason against the next move: the pod is gone, or the decision was too old or not yet based on
enough data, and the next one is newer."""


class Cooldown(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a cooldown, and why it began."""

    until: float
    why: str
    repeated: int = 0
    """How many times in a row the cause occurred: replacements of a workload that returned to the evicted node, trials
    of a node without a load reduction, or plans for a waiting pod."""

    limit: str = ""
    """The name of the limit that refused an eviction; empty if the cause was another one."""

    planned_at: float = 0.0
    """The time of the last plan for a waiting pod that began the cooldown of its trigger."""


Cooldowns = Mapping[str, Cooldown]
"""The cooldowns by pod UID, workload, workload and node, namespace, node, trigger, and for everything."""

EVERYTHING = "everything"

FAILED_TRIALS = 2
"""Trials in a row without a load reduction, after which a node is in cooldown. One may be the peak of another pod."""

_NODE = "node "
_TRIGGER = "trigger "


def _pair(workload: Workload, node: str) -> str:
    return f"{workload}@{node}"


def _of_namespace(name: str) -> str:
    return f"namespace {name}"


def _scope(outcome: EvictionOutcome) -> str:
    """The key of the pods that the limit would refuse as well, for example those of the workload; "" if it concerns
    this pod only."""
    match outcome.limit_scope:
        case "cluster":
            return EVERYTHING
        case "namespace":
            return _of_namespace(outcome.namespace)
        case "workload" if outcome.workload is not None:
            return str(outcome.workload)
        case _:
            return ""


def _with(cooldowns: Cooldowns, key: str, cooldown: Cooldown) -> dict[str, Cooldown]:
    """The longer cooldown wins: a short one never ends a long one early."""
    before = cooldowns.get(key)
    if before is not None and before.until >= cooldown.until:
        cooldown = before
    return {**cooldowns, key: cooldown}


def merged(cooldowns: Cooldowns, others: Cooldowns) -> Cooldowns:
    """The cooldowns of both, each with its later end."""
    result = cooldowns
    for key, cooldown in others.items():
        result = _with(result, key, cooldown)
    return result


def after_outcome(
    cooldowns: Cooldowns, outcome: EvictionOutcome, settings: CooldownSettings, now: float
) -> dict[str, Cooldown]:
    """The cooldowns after the outcome of an intent.

    Its times are those of the API server, whose clock may be ahead for a while: a cooldown begins no later than `now`.
    """
    settled_at = min(outcome.settled_at, now)
    if outcome.trigger and outcome.outcome not in (*MOVED, *LEFT):
        cooldowns = after_partial_set(cooldowns, outcome.trigger, outcome.decided_at, settings, settled_at)
    if outcome.outcome in NO_REFUSALS:
        return dict(cooldowns)
    key, limit = _scope(outcome), ""
    if outcome.outcome in MOVED:
        if outcome.trigger:
            cooldowns = _after_trigger(cooldowns, outcome, settings, settled_at)
        key = outcome.pod_uid if outcome.workload is None else str(outcome.workload)
        until, why = settled_at + settings.eviction, "a pod of its workload was moved recently"
    elif key:
        wait = settings.refusal if outcome.retry_at is None else outcome.retry_at - outcome.settled_at
        until, limit = settled_at + wait, outcome.limit
        why = f"limits.{limit} is exhausted"
    else:
        key = outcome.pod_uid
        until, why = settled_at + settings.refusal, _why(outcome.outcome)
    before = cooldowns.get(key)
    repeated = before.repeated if before else 0
    return _with(cooldowns, key, Cooldown(until=until, why=why, repeated=repeated, limit=limit))


def _after_trigger(
    cooldowns: Cooldowns, outcome: EvictionOutcome, settings: CooldownSettings, moved_at: float
) -> dict[str, Cooldown]:
    """The cooldowns once a pod was moved to make room for a waiting pod. Several pods may be moved for one trigger.

    An autoscaler that changes the size of a pod again and again gives it a new generation each time.
    """
    of_size, waiting = f"{_TRIGGER}{outcome.trigger}", f"{_TRIGGER}{waiting_uid(outcome.trigger)}"
    known, before = cooldowns.get(of_size), cooldowns.get(waiting)
    if known is not None and known.planned_at >= outcome.decided_at:
        return dict(cooldowns)
    times = 1 + (before.repeated if before is not None else 0)
    length = min(settings.max, settings.eviction * 2.0 ** (min(times, 32) - 1))
    of_pod = Cooldown(until=moved_at + length, why="pods were moved for it recently", repeated=times)
    begun = {**_with(cooldowns, waiting, of_pod), of_size: Cooldown(
        until=moved_at + settings.max, why="pods were moved for this size of it before", planned_at=outcome.decided_at
    )}  # fmt: skip
    partial = _partial_set(outcome.trigger, outcome.decided_at) in cooldowns
    return _without_size(begun, outcome.trigger) if partial else begun


def after_partial_set(
    cooldowns: Cooldowns, trigger: str, planned_at: float, settings: CooldownSettings, now: float
) -> dict[str, Cooldown]:
    """The cooldowns once a pod was not moved that should have made room together with others, which may be moved.

    Too little room is made then, so this size is planned for again when the cooldown of the waiting pod has ended.
    `planned_at`: the time of the plan, which proposes all pods of a set.
    """
    marked = {**cooldowns, _partial_set(trigger, planned_at): Cooldown(until=now + settings.max, why="")}
    known = cooldowns.get(f"{_TRIGGER}{trigger}")
    return _without_size(marked, trigger) if known and known.planned_at == planned_at else marked


def _partial_set(trigger: str, planned_at: float) -> str:
    """The key of the set of pods that one plan proposed for a trigger."""
    return f"partial {trigger} {planned_at}"


def _without_size(cooldowns: Cooldowns, trigger: str) -> dict[str, Cooldown]:
    """The cooldown of the trigger lasts as long as that of its pod."""
    of_size, waiting = f"{_TRIGGER}{trigger}", cooldowns.get(f"{_TRIGGER}{waiting_uid(trigger)}")
    until = waiting.until if waiting is not None else 0.0
    return {**cooldowns, of_size: msgspec.structs.replace(cooldowns[of_size], until=until)}


def _why(outcome: Outcome) -> str:
    return f"its last eviction {_ENDINGS.get(outcome, f'ended as {outcome.value}')}"


_ENDINGS = {
    Outcome.BLOCKED_PDB: "was blocked by a PodDisruptionBudget",
    Outcome.REJECTED_POLICY: "was refused: the pod is protected",
    Outcome.REJECTED_LIMIT: "was refused by a limit",
    Outcome.REJECTED_FIT: "was refused: its replacement fits on no node",
    Outcome.PAUSED: "was refused: evictions are paused",
    Outcome.FAILED: "failed",
}


def earlier(cooldowns: Cooldowns, seconds: float) -> dict[str, Cooldown]:
    """The cooldowns after this clock was set back: they last as long as before."""
    return {
        key: msgspec.structs.replace(cooldown, until=cooldown.until - seconds) for key, cooldown in cooldowns.items()
    }


def after_return(
    cooldowns: Cooldowns, workload: Workload, node: str, settings: CooldownSettings, now: float
) -> dict[str, Cooldown]:
    """The cooldowns once a replacement was scheduled to the node from which its predecessor was evicted."""
    before = cooldowns.get(str(workload))
    returns = 1 + (before.repeated if before is not None else 0)
    length = min(settings.max, settings.same_node_return * 2.0 ** (min(returns, 32) - 1))
    why = f"the last replacement of its workload returned to {node}"
    on_any_node = Cooldown(until=now + length, why=why, repeated=returns)
    on_this_node = Cooldown(until=now + min(settings.max, 2 * length), why=why, repeated=returns)
    return _with(_with(cooldowns, str(workload), on_any_node), _pair(workload, node), on_this_node)


def after_reduction(
    cooldowns: Cooldowns, result: LoadReduction, settings: CooldownSettings, now: float
) -> dict[str, Cooldown]:
    """The cooldowns once it is known whether the load of a node fell after evictions from it."""
    key = f"{_NODE}{result.node}"
    if result.reduced:
        return {name: cooldown for name, cooldown in cooldowns.items() if name != key}
    before = cooldowns.get(key)
    trials = 1 + (before.repeated if before is not None else 0)
    beyond = trials - FAILED_TRIALS
    length = min(settings.max, settings.no_load_reduction * 2.0 ** min(beyond, 32)) if beyond >= 0 else 0.0
    until = max(now + length, before.until if before is not None else now)
    why = f"no load reduction after evictions, {trials} times in a row: {_shortfall(result)}"
    return {**cooldowns, key: Cooldown(until=until, why=why, repeated=trials)}


def _shortfall(result: LoadReduction) -> str:
    """The expected and the measured reduction, for each resource that was above its threshold."""
    parts = []
    for name in result.over:
        # A further resource has a unit of its own.
        scale, unit = {"cpu": (1.0, " cores"), "memory": (2.0**30, " GiB")}.get(name, (1.0, ""))
        before, after, expected = (
            (usage.amount(name) or 0.0) / scale for usage in (result.before, result.after, result.expected)
        )
        measured = f"fell by {before - after:.2f}" if before >= after else f"rose by {after - before:.2f}"
        parts.append(f"{name} {measured} instead of falling by {expected:.2f}{unit}")
    return "; ".join(parts)


def node_cooldown(cooldowns: Cooldowns, node: str, now: float) -> str:
    """Why no pod may be moved away from this node at present; "" when pods may be."""
    cooldown = cooldowns.get(f"{_NODE}{node}")
    return cooldown.why if cooldown is not None and cooldown.until > now else ""


def triggers_in_cooldown(cooldowns: Cooldowns, now: float) -> dict[str, str]:
    """Why no further pods are moved for waiting pods, by trigger and by UID."""
    return {
        key.removeprefix(_TRIGGER): cooldown.why
        for key, cooldown in cooldowns.items()
        if key.startswith(_TRIGGER) and cooldown.until > now
    }


def nodes_in_cooldown(cooldowns: Cooldowns, now: float) -> list[NodeCooldown]:
    """The nodes in cooldown, ordered by name."""
    return [
        NodeCooldown(node=key.removeprefix(_NODE), until=cooldown.until, why=cooldown.why)
        for key, cooldown in sorted(cooldowns.items())
        if key.startswith(_NODE) and cooldown.until > now
    ]


def pod_cooldown(
    cooldowns: Cooldowns, *, uid: str, namespace: str, workload: Workload | None, node: str, now: float
) -> str:
    """Why this pod may not be moved at present; "" when it may be."""
    keys = [EVERYTHING, _of_namespace(namespace), uid]
    if workload is not None:
        keys += [str(workload), _pair(workload, node)]
    applying = (cooldowns.get(key) for key in keys)
    return next((cooldown.why for cooldown in applying if cooldown is not None and cooldown.until > now), "")


def in_campaign(cooldowns: Cooldowns) -> dict[str, Cooldown]:
    """The cooldowns that also hold in a campaign: not those of limits that its budget replaces."""
    return {key: cooldown for key, cooldown in cooldowns.items() if cooldown.limit not in CAMPAIGN_LIMITS}


def pruned(cooldowns: Cooldowns, settings: CooldownSettings, now: float) -> dict[str, Cooldown]:
    """The cooldowns without those that ended; repeated ones are kept for another `settings.max` seconds."""
    return {
        key: cooldown
        for key, cooldown in cooldowns.items()
        if cooldown.until + (settings.max if cooldown.repeated else 0.0) > now
    }
