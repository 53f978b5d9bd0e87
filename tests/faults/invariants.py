"""What must hold whatever breaks: pure checks of a history, each returning what it found wrong, as people read it.

The numbers are those of docs/reliability.md. A check that finds nothing in an empty history proves nothing: `Least`
says how much must have happened.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise

import msgspec

from equipoise.contracts.messages.eviction import Outcome
from faults.history import HARNESS, History, Post, Promises, Said

Check = Callable[[History, Promises], list[str]]


class Least(msgspec.Struct, frozen=True, kw_only=True):
    """Traffic below which a run is inconclusive, however green its checks are."""

    intents: int
    evictions: int

    def missing(self, history: History) -> str:
        """ "" when enough happened."""
        intents, evictions = len(history.new_intents), len(history.new_evictions)
        if intents >= self.intents and evictions >= self.evictions:
            return ""
        return f"{intents} of {self.intents} intents and {evictions} of {self.evictions} evictions"


def limits_hold(history: History, promises: Promises) -> list[str]:
    """I1: in no window more evictions than its limit, and never too many pods on their way from one node."""
    wrong = []
    for window in promises.windows:
        seen: dict[str, list[Post]] = defaultdict(list)
        for post in history.evictions:
            scope = {"workload": f"{post.namespace}/{post.workload}", "namespace": post.namespace, "cluster": ""}
            before = seen[scope[window.scope]]
            before.append(post)
            inside = [each for each in before if each.at > post.at - window.seconds]
            if len(inside) > window.most and post.at >= history.since:
                where = f"{window.scope} {scope[window.scope]}".strip()
                wrong.append(
                    f"{post.pod}: eviction {len(inside)} of {where} in {window.seconds:g} s, {window.most} allowed"
                )
    return wrong + _in_migration(history, promises)


def _in_migration(history: History, promises: Promises) -> list[str]:
    """Pods that left a node and whose workloads have not been whole since."""
    most = promises.in_migration_per_node
    if most is None:
        return []
    wrong = []
    whole = {workload: _whole(history, workload, count) for workload, count in promises.replicas.items()}
    nodes = _Nodes(history)
    left: dict[str, list[Post]] = defaultdict(list)
    for post in history.evictions:
        node = nodes(post)
        left[node].append(post)
        away = [
            other
            for other in left[node]
            if other is post or not _any_between(whole.get(other.workload, []), other.at, post.at)
        ]
        if node and len(away) > most and post.at >= history.since:
            wrong.append(f"{post.pod}: pod {len(away)} on its way from {node}, {most} allowed")
    return wrong


class _Nodes:
    """Where pods were, by their bindings."""

    def __init__(self, history: History) -> None:
        self._bound: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        for change in sorted(history.pods, key=lambda change: change.at):
            if change.what == "bound":
                self._bound[change.namespace, change.pod].append((change.at, change.node))

    def __call__(self, post: Post) -> str:
        """ "" when it was bound before the log began."""
        bound = [node for at, node in self._bound[post.namespace, post.pod] if at <= post.at]
        return bound[-1] if bound else ""


def _any_between(moments: list[float], begin: float, end: float) -> bool:
    place = bisect_right(moments, begin)
    return place < len(moments) and moments[place] <= end


def _whole(history: History, workload: str, replicas: int) -> list[float]:
    """Moments at which a workload came to have all its replicas ready."""
    ready: set[tuple[str, str]] = set()
    moments = []
    for at, name, is_ready in _readiness(history, workload):
        ready = ready | {name} if is_ready else ready - {name}
        if is_ready and len(ready) >= replicas:
            moments.append(at)
    return moments


def _readiness(history: History, workload: str, forgive: float = 0.0) -> list[tuple[float, tuple[str, str], bool]]:
    """When a pod of the workload became ready or stopped being so.

    Deletions by others count `forgive` s later, and not at all when the pod of that name is ready again by then.
    """
    changes = [change for change in history.pods if change.workload == workload and change.what != "bound"]
    back: dict[tuple[str, str], list[float]] = defaultdict(list)
    for change in changes:
        if change.what == "ready":
            back[change.namespace, change.pod].append(change.at)
    events: list[tuple[float, tuple[str, str], bool]] = []
    for change in changes:
        name = (change.namespace, change.pod)
        if change.what == "ready":
            events.append((change.at, name, True))
        elif not _any_between(sorted(back[name]), change.at, change.at + forgive):
            events.append((change.at + forgive, name, False))
    events += [(post.at, (post.namespace, post.pod), False) for post in history.evictions if post.workload == workload]
    return sorted(events)


def replicas_remain(history: History, promises: Promises) -> list[str]:
    """I2: after each eviction as many replicas are ready as the workload's floor says.

    What somebody else deleted within the last moment no binder can have known.
    """
    wrong = []
    for workload, floor in promises.floors.items():
        ready: set[tuple[str, str]] = set()
        evicted = {(post.at, (post.namespace, post.pod)) for post in history.new_evictions}
        for at, name, is_ready in _readiness(history, workload, promises.in_transit):
            ready = ready | {name} if is_ready else ready - {name}
            if (at, name) in evicted and len(ready) < floor:
                wrong.append(f"{name[1]}: {len(ready)} ready replicas of {workload} left, {floor} must remain")
    return wrong


def protected_stay(history: History, promises: Promises) -> list[str]:
    """I3: no protected pod is ever evicted, and nothing is ever deleted past the eviction API."""
    wrong = [
        f"{post.namespace}/{post.pod}: evicted although protected"
        for post in history.new_posts
        if post.carried_out and post.workload in promises.protected
    ]
    return wrong + [
        f"{change.namespace}/{change.pod}: deleted, not evicted, by a service"
        for change in history.pods
        if change.by_us and change.what == "deleted" and change.at >= history.since
    ]


def uids_match(history: History, promises: Promises) -> list[str]:
    """I4: every POST demands the UID of an intent, and none comes without an intent."""
    wrong = []
    candidates = history.candidates()
    for post in history.new_posts:
        if post.uid is None:
            wrong.append(f"{post.pod}: POST without a UID")
        elif not candidates(post):
            wrong.append(f"{post.pod}: POST for UID {post.uid}, of which no intent was said")
    return wrong


def one_outcome_each(history: History, promises: Promises) -> list[str]:
    """I5: every intent comes to exactly one outcome; what is said twice is the same, and is kept once."""
    outcomes: dict[str, set[Outcome]] = defaultdict(set)
    for heard in history.outcomes:
        outcomes[heard.intent_id].add(heard.outcome)
    ids = {said.intent.id for said in history.new_intents}
    wrong = [
        f"{said.intent.id} ({said.intent.pod}): no outcome"
        for said in history.new_intents
        if said.answered_for and not outcomes[said.intent.id]
    ]
    for intent_id in sorted(ids):
        if len(outcomes[intent_id]) > 1:
            wrong.append(f"{intent_id}: {' and '.join(sorted(outcomes[intent_id]))}")
        if history.kept.get(intent_id, 0) > 1:
            wrong.append(f"{intent_id}: {history.kept[intent_id]} outcomes are kept")
    return wrong + _untrue(history, outcomes)


def _untrue(history: History, outcomes: Mapping[str, set[Outcome]]) -> list[str]:
    """Outcomes that the audit log belies."""
    wrong = []
    carried_out = {post.uid for post in history.evictions}
    for said in history.new_intents:
        if Outcome.EVICTED in outcomes[said.intent.id] and said.intent.pod_uid not in carried_out:
            left = any(
                change.what == "deleted" and change.pod == said.intent.pod and change.at >= said.at
                for change in history.pods
            )
            if not left:  # who deleted it while its eviction was unanswered cannot be told
                wrong.append(f"{said.intent.id}: said to be evicted, of which the API server knows nothing")
    return wrong


def samples_are_fresh(history: History, promises: Promises) -> list[str]:
    """I6: at each POST its intent was alive and its samples neither too old nor from the future."""
    wrong = []
    candidates = history.candidates()
    for post in history.new_posts:
        found = candidates(post)
        if found and not any(_timely(said, post, promises) for said in found):
            said = found[-1]
            age, late = post.at - said.intent.sampled_at, post.at - said.intent.expires_at
            wrong.append(f"{post.pod}: POST on a sample {age:.1f} s old, {late:+.1f} s from the end of its intent")
    return wrong


def _timely(said: Said, post: Post, promises: Promises) -> bool:
    age = post.at - said.intent.sampled_at
    fresh = -promises.future <= age <= promises.freshness + promises.in_transit
    return fresh and post.at <= said.intent.expires_at + promises.in_transit


def one_epoch_acts(history: History, promises: Promises) -> list[str]:
    """I7: once a newer leader's intent was posted none of an older one is; and none ever of one that was dethroned."""
    wrong = []
    newest, since = -1, 0.0
    candidates = history.candidates()
    for post in sorted(history.posts, key=lambda post: post.at):
        found = candidates(post)
        if not found:
            continue
        epoch = max(said.intent.epoch.transitions for said in found)
        if epoch < newest and post.at > since + promises.in_transit and post.at >= history.since:
            wrong.append(f"{post.pod}: POST of epoch {epoch}, {post.at - since:.1f} s after the first of {newest}")
        if epoch > newest:
            newest, since = epoch, post.at
        if not any(said.epoch_held for said in found) and post.at >= history.since:
            wrong.append(f"{post.pod}: POST for a descheduler that did not hold the Lease")
    return wrong


def blind_means_still(history: History, promises: Promises) -> list[str]:
    """I8: while too little is measured no descheduler proposes, nothing is evicted, and every score is neutral."""
    wrong = []
    for span in history.blind:
        wrong += [
            f"{said.intent.pod}: proposed {said.at - span.begin:.1f} s into blindness"
            for said in history.new_intents
            if span.holds(said.at) and said.intent.strategy != HARNESS
        ]
        wrong += [
            f"{post.pod}: evicted {post.at - span.begin:.1f} s into blindness"
            for post in history.new_posts
            if span.holds(post.at) and post.carried_out
        ]
        wrong += [
            f"a score told nodes apart {answer.at - span.begin:.1f} s into blindness"
            for answer in history.answers
            if span.begin + promises.score_lag <= answer.at <= span.end and not answer.neutral
        ]
    return wrong


def no_ping_pong(history: History, promises: Promises) -> list[str]:
    """I11: a workload comes back to a node that the descheduler moved it from once at most.

    Replacements have other names: the first binding of the workload after an eviction is taken for its replacement.
    """
    proposed = {said.intent.pod_uid for said in history.intents if said.intent.strategy != HARNESS}
    returns: Counter[tuple[str, str]] = Counter()
    waiting: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    nodes = _Nodes(history)
    events: list[tuple[float, int, str, str, bool]] = []
    for post in history.evictions:
        events.append((post.at, 0, post.workload, nodes(post), post.uid in proposed))
    for change in history.pods:
        if change.what == "bound":
            events.append((change.at, 1, change.workload, change.node, False))
    for _, kind, workload, node, ours in sorted(events):
        if kind == 0:
            waiting[workload].append((node, ours))
        elif waiting[workload]:
            left, was_ours = waiting[workload].pop(0)
            if was_ours and left == node:
                returns[workload, node] += 1
    return [f"{workload} came back to {node} {count} times" for (workload, node), count in returns.items() if count > 1]


def usage_goes_forward(history: History, promises: Promises) -> list[str]:
    """I16: no node's utilization is followed by an older one."""
    wrong = []
    of_node: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for measured in history.measured:
        of_node[measured.node].append((measured.epoch, measured.sequence, measured.sampled_at))
    for node, orders in of_node.items():
        wrong += [f"{node}: {after} after {before}" for before, after in pairwise(orders) if after[:2] <= before[:2]]
        wrong += [
            f"{node}: a sample {before[2] - after[2]:.1f} s older than the one before"
            for before, after in pairwise(orders)
            if after[2] < before[2]
        ]
    return wrong


def rehearsals_are_dry(history: History, promises: Promises) -> list[str]:
    """I17: in a dry run every POST is one."""
    return [
        f"{post.pod}: a real POST in a dry run"
        for post in history.new_posts
        if any(span.holds(post.at) for span in history.rehearsing) and not post.dry_run
    ]


def pause_holds(history: History, promises: Promises) -> list[str]:
    """I18: from 5 s after a pause nothing is posted any more."""
    return [
        f"{post.pod}: POST {post.at - span.begin:.1f} s after the pause"
        for span in history.paused
        for post in history.new_posts
        if span.begin + promises.pause <= post.at <= span.end
    ]


INVARIANTS: Mapping[str, Check] = {
    "I1": limits_hold,
    "I2": replicas_remain,
    "I3": protected_stay,
    "I4": uids_match,
    "I5": one_outcome_each,
    "I6": samples_are_fresh,
    "I7": one_epoch_acts,
    "I8": blind_means_still,
    "I11": no_ping_pong,
    "I16": usage_goes_forward,
    "I17": rehearsals_are_dry,
    "I18": pause_holds,
}


def violations(history: History, promises: Promises) -> dict[str, list[str]]:
    """By invariant what was found; empty lists where all is well."""
    return {name: check(history, promises) for name, check in INVARIANTS.items()}
