"""What a run left behind: what the API server's audit log and the bus say, and what the harness did at which time.

Nothing in it comes from counters or logs of Equipoise. Times are Unix seconds on one machine's clock.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

import msgspec

from equipoise.contracts.messages.eviction import EvictionIntent, Outcome

HARNESS = "faults"
"""The strategy of intents that the harness says in a descheduler's place."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a history."""


class Post(Value, frozen=True, kw_only=True):
    """One answered POST to `pods/eviction`, by the audit log."""

    at: float
    """When the API server received it."""

    namespace: str = "shop"
    pod: str
    workload: str
    uid: str | None
    """The UID demanded."""

    dry_run: bool = False
    code: int = 201

    @property
    def carried_out(self) -> bool:
        return 200 <= self.code < 300 and not self.dry_run


class PodChange(Value, frozen=True, kw_only=True):
    """A pod got a node, became ready, or was deleted otherwise than by an eviction, by the audit log."""

    at: float
    what: Literal["bound", "ready", "deleted"]
    namespace: str = "shop"
    pod: str
    workload: str
    node: str = ""
    by_us: bool = False
    """Deleted by a service of Equipoise, which must never be."""


class Said(Value, frozen=True, kw_only=True):
    """An intent on the bus."""

    at: float
    intent: EvictionIntent
    answered_for: bool = True
    """Must have an outcome: False when the stream did not take it, or lost it in a fault that loses streams."""

    epoch_held: bool = True
    """False: said in the name of a leader that the harness knows to be dethroned."""


class Heard(Value, frozen=True, kw_only=True):
    """An outcome on the bus."""

    at: float
    intent_id: str
    outcome: Outcome


class Measured(Value, frozen=True, kw_only=True):
    """A node's utilization as it passed on the bus, in order of arrival."""

    at: float
    node: str
    epoch: int
    sequence: int
    sampled_at: float


class Answered(Value, frozen=True, kw_only=True):
    """A scorer's answer to a question of the harness."""

    at: float
    neutral: bool


class Span(Value, frozen=True, kw_only=True):
    """From one moment to another."""

    begin: float
    end: float

    def holds(self, at: float) -> bool:
        return self.begin <= at <= self.end


class Window(Value, frozen=True, kw_only=True):
    """At most so many evictions of one workload, namespace or the cluster in any so many seconds."""

    scope: Literal["workload", "namespace", "cluster"]
    most: int
    seconds: float


class Promises(Value, frozen=True, kw_only=True):
    """What the configuration of the run promises."""

    windows: tuple[Window, ...] = ()
    in_migration_per_node: int | None = None
    replicas: dict[str, int] = {}
    """Of every workload that may lose pods."""

    floors: dict[str, int] = {}
    """Ready replicas that a workload keeps whatever is evicted."""

    protected: frozenset[str] = frozenset()
    """Workloads, and bare pods, of which none may ever be evicted."""

    freshness: float = 120.0
    """Greatest age of the oldest sample behind an eviction."""

    score_lag: float = 0.0
    """Seconds that a sample lives longer for a score than for an eviction."""

    future: float = 5.0
    in_transit: float = 1.0
    """Seconds between a decision and its arrival at the API server."""

    pause: float = 5.0
    """Seconds after which a pause must hold."""


class History(Value, frozen=True, kw_only=True):
    """One run, and as far as windows reach back, what was before it."""

    since: float = 0.0
    """Violations before this moment were those of an earlier run."""

    posts: tuple[Post, ...] = ()
    pods: tuple[PodChange, ...] = ()
    intents: tuple[Said, ...] = ()
    outcomes: tuple[Heard, ...] = ()
    kept: dict[str, int] = {}
    """By intent id, how many outcomes the stream of outcomes holds."""

    measured: tuple[Measured, ...] = ()
    answers: tuple[Answered, ...] = ()
    paused: tuple[Span, ...] = ()
    """From the end of the command that paused to the beginning of the one that resumed."""

    blind: tuple[Span, ...] = ()
    """While too little of the fleet was measured, from the first evaluation that could know it."""

    without_new_pods: tuple[Span, ...] = ()
    """While the API server took no new pods."""

    rehearsing: tuple[Span, ...] = ()
    """While every binder was told to run dry."""

    @property
    def new_posts(self) -> list[Post]:
        return [post for post in self.posts if post.at >= self.since]

    @property
    def evictions(self) -> list[Post]:
        """Real ones that succeeded, of this run and before: a pod once, by time."""
        return _first_of_each_pod(sorted(self.posts, key=lambda post: post.at))

    @property
    def new_evictions(self) -> list[Post]:
        return [post for post in self.evictions if post.at >= self.since]

    @property
    def new_intents(self) -> list[Said]:
        return [said for said in self.intents if said.at >= self.since]

    def candidates(self) -> "Candidates":
        """For every POST the intents that it may stand on."""
        return Candidates(self.intents)


class Candidates:
    """Intents by the pod they are about."""

    def __init__(self, intents: Iterable[Said]) -> None:
        self._of: dict[tuple[str, str, str | None], list[Said]] = defaultdict(list)
        for said in intents:
            self._of[said.intent.namespace, said.intent.pod, said.intent.pod_uid].append(said)

    def __call__(self, post: Post) -> list[Said]:
        """Intents for that very pod that were said before the POST came."""
        return [said for said in self._of[post.namespace, post.pod, post.uid] if said.at <= post.at]


def _first_of_each_pod(posts: Iterable[Post]) -> list[Post]:
    """A second eviction of a pod that is on its way out takes nothing more away."""
    seen: set[str | None] = set()
    first: list[Post] = []
    for post in posts:
        if post.carried_out and (post.uid is None or post.uid not in seen):
            seen.add(post.uid)
            first.append(post)
    return first
