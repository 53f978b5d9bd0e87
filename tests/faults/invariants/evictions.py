"""Evictions: their limits, pods, intents, outcomes, samples and leaders."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from equipoise.contracts.messages.eviction import Outcome
from faults.history import HARNESS, Guarantees, History, Post, PublishedIntent, Window


def limits_hold(history: History, guarantees: Guarantees) -> list[str]:
    """I1: in no window more evictions than its limit, and never too many pods migrating from one node."""
    wrong = []
    for window in guarantees.windows:
        for post, count in counted(window, history.evictions):
            if count > window.max and post.at >= history.since:
                where = f"{window.scope} {window.scope_of(post)}".strip()
                wrong.append(f"{post.pod}: eviction {count} of {where} in {window.seconds:g} s, {window.max} allowed")
    return wrong + _migrating(history, guarantees)


def counted(window: Window, posts: Iterable[Post]) -> Iterator[tuple[Post, int]]:
    """Each eviction, which are in order of time, with the number of those of its scope in the window that it ends."""
    inside: dict[str, list[float]] = defaultdict(list)
    for post in posts:
        times = inside[window.scope_of(post)]
        times[:] = [*(at for at in times if at > post.at - window.seconds), post.at]
        yield post, len(times)


def _migrating(history: History, guarantees: Guarantees) -> list[str]:
    """Pods that left a node and whose workloads have not had all replicas ready since, until they are given up."""
    limit = guarantees.migrating_per_node
    if limit is None:
        return []
    wrong = []
    all_ready = {
        workload: _times_all_ready(history, workload, count) for workload, count in guarantees.replicas.items()
    }
    nodes = _Nodes(history)
    left: dict[str, list[Post]] = defaultdict(list)
    for post in history.evictions:
        node = nodes(post)
        left[node] = [other for other in left[node] if post.at - other.at < guarantees.migration_timeout] + [post]
        away = [
            other
            for other in left[node]
            if other is post or not _any_between(all_ready.get(other.workload, []), other.at, post.at)
        ]
        if node and len(away) > limit and post.at >= history.since:
            wrong.append(f"{post.pod}: pod {len(away)} migrating from {node}, {limit} allowed")
    return wrong


class _Nodes:
    """The nodes of pods, by their bindings."""

    def __init__(self, history: History) -> None:
        self._bound: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        for change in sorted(history.pods, key=lambda change: change.at):
            if change.what == "bound":
                self._bound[change.namespace, change.pod].append((change.at, change.node))

    def __call__(self, post: Post) -> str:
        """ "" when it was bound before the log started."""
        bound = [node for at, node in self._bound[post.namespace, post.pod] if at <= post.at]
        return bound[-1] if bound else ""


def _any_between(times: list[float], begin: float, end: float) -> bool:
    index = bisect_right(times, begin)
    return index < len(times) and times[index] <= end


def _times_all_ready(history: History, workload: str, replicas: int) -> list[float]:
    """The times at which all replicas of a workload became ready."""
    ready: set[tuple[str, str]] = set()
    times = []
    for at, name, is_ready in _readiness(history, workload):
        ready = ready | {name} if is_ready else ready - {name}
        if is_ready and len(ready) >= replicas:
            times.append(at)
    return times


def _readiness(history: History, workload: str, grace: float = 0.0) -> list[tuple[float, tuple[str, str], bool]]:
    """When pods of the workload became ready or were lost.

    A pod that others deleted counts as lost only after `grace` s, and not if a pod of its name is ready by then.
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
        elif not _any_between(sorted(back[name]), change.at, change.at + grace):
            events.append((change.at + grace, name, False))
    events += [(post.at, (post.namespace, post.pod), False) for post in history.evictions if post.workload == workload]
    return sorted(events)


def replicas_remain(history: History, guarantees: Guarantees) -> list[str]:
    """I2: after each eviction as many replicas are ready as the workload's floor requires.

    A pod that another client deleted is not counted while the read of a binder may be older.
    """
    wrong = []
    for workload, floor in guarantees.floors.items():
        ready: set[tuple[str, str]] = set()
        evicted = {(post.at, (post.namespace, post.pod)) for post in history.new_evictions}
        for at, name, is_ready in _readiness(history, workload, guarantees.read_age + guarantees.transit):
            ready = ready | {name} if is_ready else ready - {name}
            if (at, name) in evicted and len(ready) < floor:
                wrong.append(f"{name[1]}: {len(ready)} ready replicas of {workload} left, {floor} must remain")
    return wrong


def protected_pods_remain(history: History, guarantees: Guarantees) -> list[str]:
    """I3: no protected pod is evicted, and no pod is deleted without the eviction API."""
    wrong = [
        f"{post.namespace}/{post.pod}: evicted although protected"
        for post in history.new_posts
        if post.executed and post.workload in guarantees.protected
    ]
    return wrong + [
        f"{change.namespace}/{change.pod}: deleted, not evicted, by a service"
        for change in history.pods
        if change.by_equipoise and change.what == "deleted" and change.at >= history.since
    ]


def uids_match(history: History, guarantees: Guarantees) -> list[str]:
    """I4: every POST has the UID of a published intent as its precondition.

    The audit log lacks the body of a request whose client left before the API server had read it. Such a request fails.
    """
    wrong = []
    candidates = history.candidates()
    for post in history.new_posts:
        if post.uid is None and post.code < 500:
            wrong.append(f"{post.pod}: POST without a UID")
        elif post.uid is not None and not candidates(post):
            wrong.append(f"{post.pod}: POST for UID {post.uid}, without a published intent")
    return wrong


_EXECUTED = {Outcome.EVICTED, Outcome.DRY_RUN}


def one_outcome_each(history: History, guarantees: Guarantees) -> list[str]:
    """I5: every intent has exactly one outcome in the stream; a repeated one is equal.

    Two binders that refuse an intent at the same time may give different reasons. The stream keeps the first.
    """
    outcomes: dict[str, set[Outcome]] = defaultdict(set)
    for outcome in history.outcomes:
        outcomes[outcome.intent_id].add(outcome.outcome)
    ids = {published.intent.id for published in history.new_intents}
    wrong = [
        f"{published.intent.id} ({published.intent.pod}): no outcome"
        for published in history.new_intents
        if published.outcome_expected and not outcomes[published.intent.id]
    ]
    may_change = _recorded_nowhere_else(history)
    for intent_id in sorted(ids):
        if len(outcomes[intent_id]) > 1 and outcomes[intent_id] & _EXECUTED and intent_id not in may_change:
            wrong.append(f"{intent_id}: {' and '.join(sorted(outcomes[intent_id]))}")
        if history.kept.get(intent_id, 0) > 1:
            wrong.append(f"{intent_id}: {history.kept[intent_id]} outcomes in the stream")
    return wrong + _contradicted(history, outcomes)


def _recorded_nowhere_else(history: History) -> set[str]:
    """Intents that may have another outcome: a rejection is recorded in the stream only, which lost or refused it."""
    first: dict[str, Outcome] = {}
    for outcome in history.outcomes:
        first.setdefault(outcome.intent_id, outcome.outcome)
    return {
        published.intent.id
        for published in history.new_intents
        if published.outcome_lost and first.get(published.intent.id) not in (None, Outcome.EVICTED, Outcome.DRY_RUN)
    }


def _contradicted(history: History, outcomes: Mapping[str, set[Outcome]]) -> list[str]:
    """Outcomes that the audit log contradicts."""
    wrong = []
    executed = {post.uid for post in history.evictions}
    for published in history.new_intents:
        if Outcome.EVICTED in outcomes[published.intent.id] and published.intent.pod_uid not in executed:
            left = any(
                change.what == "deleted" and change.pod == published.intent.pod and change.at >= published.at
                for change in history.pods
            )
            if not left:  # whose request deleted it is unknown when the response was lost
                wrong.append(f"{published.intent.id}: outcome evicted, without an eviction in the audit log")
    return wrong


def samples_are_fresh(history: History, guarantees: Guarantees) -> list[str]:
    """I6: at each POST its intent was not expired, and its samples neither too old nor from the future."""
    wrong = []
    candidates = history.candidates()
    for post in history.newly_begun:
        found = candidates(post)
        if found and not any(_timely(published, post, guarantees) for published in found):
            published = found[-1]
            age, late = post.left - published.intent.sampled_at, post.left - published.intent.expires_at
            wrong.append(f"{post.pod}: POST on a sample {age:.1f} s old, {late:+.1f} s from the end of its intent")
    return wrong


def _timely(published: PublishedIntent, post: Post, guarantees: Guarantees) -> bool:
    age = post.left - published.intent.sampled_at
    fresh = -guarantees.max_future <= age <= guarantees.freshness + guarantees.transit
    return fresh and post.left <= published.intent.expires_at + guarantees.transit


def one_epoch_at_a_time(history: History, guarantees: Guarantees) -> list[str]:
    """I7: after a POST for a newer leader none for an older one, and none ever for a leader without the Lease."""
    wrong = []
    newest, since = -1, 0.0
    candidates = history.candidates()
    for post in sorted(history.begun, key=lambda post: post.at):
        found = candidates(post)
        if not found:
            continue
        epoch = max(published.intent.epoch.transitions for published in found)
        if epoch < newest and post.at > since + guarantees.transit and post.at >= history.since:
            wrong.append(f"{post.pod}: POST of epoch {epoch}, {post.at - since:.1f} s after the first of {newest}")
        if epoch > newest:
            newest, since = epoch, post.at
        if not any(published.epoch_held for published in found) and post.at >= history.since:
            wrong.append(f"{post.pod}: POST for a descheduler that did not hold the Lease")
    return wrong


def no_ping_pong(history: History, guarantees: Guarantees) -> list[str]:
    """I11: replacements return at most once to a node that the descheduler evicted them from.

    Replacements have other names: the first binding of the workload after an eviction counts as its replacement.
    """
    proposed = {published.intent.pod_uid for published in history.intents if published.intent.strategy != HARNESS}
    returns: Counter[tuple[str, str]] = Counter()
    waiting: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    nodes = _Nodes(history)
    events: list[tuple[float, int, str, str, bool]] = []
    for post in history.evictions:
        counts = post.uid in proposed and post.at >= history.since
        events.append((post.at, 0, post.workload, nodes(post), counts))
    for change in history.pods:
        if change.what == "bound":
            events.append((change.at, 1, change.workload, change.node, False))
    for _, kind, workload, node, was_proposed in sorted(events):
        if kind == 0:
            waiting[workload].append((node, was_proposed))
        elif waiting[workload]:
            evicted_from, counts = waiting[workload].pop(0)
            # A descheduler of this run does not know the returns of earlier runs.
            if counts and evicted_from == node:
                returns[workload, node] += 1
    return [f"{workload} returned to {node} {count} times" for (workload, node), count in returns.items() if count > 1]


def dry_runs_only(history: History, guarantees: Guarantees) -> list[str]:
    """I17: in a dry run every POST is a dry run."""
    return [
        f"{post.pod}: a real POST in a dry run"
        for post in history.new_posts
        if any(span.contains(post.at) for span in history.dry_runs) and not post.dry_run
    ]


def pause_holds(history: History, guarantees: Guarantees) -> list[str]:
    """I18: no POST later than 5 s after a pause."""
    return [
        f"{post.pod}: POST {post.at - span.begin:.1f} s after the pause"
        for span in history.paused
        for post in history.newly_begun
        if span.begin + guarantees.pause <= post.at <= span.end
    ]
