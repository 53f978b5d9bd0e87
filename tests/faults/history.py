"""The history of a run: the API server's audit log, the messages on the bus, and the actions of the harness.

Nothing in it comes from metrics or logs of Equipoise. Times are Unix seconds on one machine's clock.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from faults.history_of_moves import MovesHistory

HARNESS = "faults"
"""The strategy of intents that the harness publishes in place of a descheduler."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a history."""


class Post(Value, frozen=True, kw_only=True):
    """One POST to `pods/eviction` with its response, from the audit log."""

    at: float
    """When the API server received it."""

    sent: float | None = None
    """When the binder sent it; None: it did not go through the proxy between the binder and the API server."""

    namespace: str = "shop"
    pod: str
    workload: str
    uid: str | None
    """The UID of the precondition."""

    dry_run: bool = False
    code: int = 201

    @property
    def executed(self) -> bool:
        return 200 <= self.code < 300 and not self.dry_run

    @property
    def left(self) -> float:
        """When it left the binder, which cannot know how long the API server or the network needs."""
        return self.at if self.sent is None else self.sent


class PodChange(Value, frozen=True, kw_only=True):
    """A pod was bound, became ready, or was deleted without an eviction; from the audit log."""

    at: float
    what: Literal["bound", "ready", "deleted"]
    namespace: str = "shop"
    pod: str
    workload: str
    node: str = ""
    by_equipoise: bool = False
    """Deleted by a service of Equipoise, which must never happen."""


class PublishedIntent(Value, frozen=True, kw_only=True):
    """An intent on the bus."""

    at: float
    intent: EvictionIntent
    outcome_expected: bool = True
    """False when the stream did not accept the intent, or lost it in a fault that empties streams."""

    epoch_held: bool = True
    """False: published in the name of a leader that has lost the Lease."""

    outcome_lost: bool = False
    """A fault may have kept its outcome from the stream, which decides, or removed it."""


class PublishedOutcome(Value, frozen=True, kw_only=True):
    """An outcome on the bus."""

    at: float
    intent_id: str
    outcome: Outcome


class NodeSample(Value, frozen=True, kw_only=True):
    """A node's utilization on the bus, in order of arrival."""

    at: float
    node: str
    epoch: int
    sequence: int
    sampled_at: float


class ScoreResponse(Value, frozen=True, kw_only=True):
    """The scorer's response to a request of the harness."""

    at: float
    neutral: bool


class ReclaimerWrite(Value, frozen=True, kw_only=True):
    """A write of a reclaimer, other than of its Lease; from the audit log."""

    at: float
    program: str
    verb: str
    resource: str
    node: str = ""
    amounts: dict[str, float | None] = {}
    """Of the bands, by resource name, in milli-cores and bytes; None: removed."""

    others: tuple[str, ...] = ()
    """What else the body contains."""

    executed: bool = True


class BandPod(Value, frozen=True, kw_only=True):
    """A pod that requests amounts of a band; from the audit log."""

    at: float
    """When it was bound."""

    pod: str
    node: str
    amounts: dict[str, float]
    ended_at: float | None = None


class RefusedPod(Value, frozen=True, kw_only=True):
    """A pod that the API server did not create or bind; from the audit log."""

    at: float
    pod: str
    code: int


class AcknowledgedEvent(Value, frozen=True, kw_only=True):
    """A message of the harness that a stream acknowledged."""

    at: float
    event_id: str
    stored: bool = True
    """Whether it was in the stream at the end of the run."""

    loss_expected: bool = False
    """A fault removed more than the stream can survive."""


class Alarm(Value, frozen=True, kw_only=True):
    """A stream was broken, and repaired by `equipoise setup`."""

    at: float
    what: str
    named: float | None = None
    """Seconds until /readyz of a service named it; None: never."""

    cleared: float | None = None
    """Seconds from the repair until no service named it; None: never."""


LATE = 0.1
"""Seconds by which the event loop of a service may be late."""


class ProcessSample(Value, frozen=True, kw_only=True):
    """A process of a service, as the operating system shows it, and its event loop since the previous sample."""

    at: float
    name: str
    pid: int
    resident: int = 0
    """Bytes of memory."""

    descriptors: int = 0
    tasks: int = 0
    measured: int = 0
    """Measurements of the event loop, none while the harness suspends or blocks the process."""

    late: int = 0
    """Those that were more than `LATE` late, not counting the time that the process waited for a CPU."""

    worst: float = 0.0
    """Seconds."""

    ready: bool = True
    """Whether it has been ready once."""


class Convergence(Value, frozen=True, kw_only=True):
    """After everything was repaired: how long it took until the services agreed with the API server."""

    at: float
    seconds: float
    different: tuple[str, ...] = ()
    """What still differed at the end."""


class Finding(Value, frozen=True, kw_only=True):
    """What a fault itself found wrong, as a client."""

    at: float
    what: str


class Leak(Value, frozen=True, kw_only=True):
    """A secret in a log."""

    at: float
    log: str
    what: str


class ExtenderExchange(Value, frozen=True, kw_only=True):
    """A request to the scorer's extender and its response, as measured by the proxy in front of it or by a client."""

    at: float
    verb: str = "prioritize"
    hosts: tuple[str, ...] = ()
    """Of the request."""

    status: int | None = 200
    """None: no response."""

    body: bytes = b""
    """Of the response."""

    seconds: float = 0.0
    """From the end of the request to the end of the response, without the time that scorer or client waited for a
    CPU."""

    scorer_runs: bool = True
    """False: the harness had killed or suspended it."""

    caller_waited: bool = True
    """False: the caller closed the connection before the response."""


class ScheduledPod(Value, frozen=True, kw_only=True):
    """A pod that the harness created, from the audit log."""

    pod: str
    created_at: float = 0.0
    bound_at: float | None = None
    node: str = ""


class PodBatch(Value, frozen=True, kw_only=True):
    """Pods that kube-scheduler scheduled with the extender, and as many in the same way without a fault."""

    at: float
    what: str
    pods: tuple[ScheduledPod, ...]
    baseline: tuple[ScheduledPod, ...] = ()
    http_timeout: float | None = None
    """Seconds, of the extender; None: the times of the baseline cannot be compared."""


class Span(Value, frozen=True, kw_only=True):
    """From one time to another."""

    begin: float
    end: float

    def contains(self, at: float) -> bool:
        return self.begin <= at <= self.end


class Forbidden(Span, frozen=True, kw_only=True):
    """From when a change of the cluster was made until it was undone: the evictions that it forbids. Empty: any."""

    why: str
    namespace: str = ""
    workload: str = ""
    uid: str = ""

    def concerns(self, post: Post) -> bool:
        return (
            self.namespace in ("", post.namespace)
            and self.workload in ("", post.workload)
            and self.uid in ("", post.uid)
        )


class Stop(Value, frozen=True, kw_only=True):
    """A process that was asked to end with SIGTERM."""

    program: str
    seconds: float
    code: int


class Window(Value, frozen=True, kw_only=True):
    """At most `max` evictions of a workload, a namespace or the cluster in any `seconds`."""

    scope: Literal["workload", "namespace", "cluster"]
    max: int
    seconds: float

    def scope_of(self, post: Post) -> str:
        return {"workload": f"{post.namespace}/{post.workload}", "namespace": post.namespace, "cluster": ""}[self.scope]


class Guarantees(Value, frozen=True, kw_only=True):
    """The guarantees of the run's configuration."""

    windows: tuple[Window, ...] = ()
    migrating_per_node: int | None = None
    migration_timeout: float = math.inf
    """Seconds after which a missing replica is no longer waited for."""

    replicas: dict[str, int] = {}
    """Of each workload whose pods may be evicted."""

    floors: dict[str, int] = {}
    """Ready replicas that a workload always keeps."""

    protected: frozenset[str] = frozenset()
    """Workloads and bare pods that are never evicted."""

    freshness: float = 120.0
    """Maximum age of the oldest sample of an eviction."""

    score_lag: float = 0.0
    """Seconds by which a sample is fresh for longer for a score than for an eviction."""

    node_amounts: dict[str, float] = {}
    """Of each node: what its amounts of a band may be at most, by resource name."""

    offer_lag: float = 5.0
    """Seconds after which a reclaimer must know that a pod was bound: it is published, evaluated and written."""

    max_future: float = 5.0
    max_moves: int = 2
    """Pods that are moved without a gap at the same time."""

    approval_lag: float = 5.0
    """Seconds after which an API server applies a change of a Role."""

    transit: float = 1.0
    """Seconds between a decision and its arrival at the API server."""

    read_age: float = 2.0
    """Maximum age of a read, in seconds, when an eviction is sent that is based on it."""

    pause: float = 5.0
    """Seconds after which a pause must be in effect."""

    alarm: float = 60.0
    """Seconds after which /readyz names a broken stream, and after its repair no longer does."""

    convergence: float = 60.0
    """Seconds after a repair until the services agree with the API server."""

    resident: float = 256 * 2.0**20
    """Bytes of memory of a process."""

    resident_growth: float = 24 * 2.0**20
    """Bytes by which the memory of a process grows in a run of less than an hour, after `warm_up`."""

    resident_per_hour: float = 2.0**20
    descriptors: int = 100
    connections: Mapping[str, int] = {}
    """By service: the connections of clients that it accepts. With them, it may have as many more descriptors."""

    tasks: int = 200
    warm_up: float = 10.0
    """Seconds after a process became ready in which its memory may grow."""

    response: float = 0.1
    """Seconds until the scorer responds."""

    nodes: int = 10


class History(Value, frozen=True, kw_only=True):
    """One run, and the time before it that windows include."""

    since: float = 0.0
    """Violations before this time belong to an earlier run."""

    posts: tuple[Post, ...] = ()
    pods: tuple[PodChange, ...] = ()
    intents: tuple[PublishedIntent, ...] = ()
    outcomes: tuple[PublishedOutcome, ...] = ()
    kept: dict[str, int] = {}
    """By intent id, the number of outcomes in the stream."""

    measured: tuple[NodeSample, ...] = ()
    scores: tuple[ScoreResponse, ...] = ()
    paused: tuple[Span, ...] = ()
    """From the end of `pause` to the beginning of `resume`."""

    uncovered: tuple[Span, ...] = ()
    """While too few nodes were measured, from the first evaluation that could detect it."""

    uncovered_for_evictions: tuple[Span, ...] = ()
    """The same while enough nodes were measured for scores."""

    new_pods_refused: tuple[Span, ...] = ()
    """While the API server accepted no new pods."""

    forbidden: tuple[Forbidden, ...] = ()
    """Changes of the cluster that forbid evictions."""

    stops: tuple[Stop, ...] = ()

    dry_runs: tuple[Span, ...] = ()
    """While every binder was configured for dry runs."""

    events: tuple[AcknowledgedEvent, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    processes: tuple[ProcessSample, ...] = ()
    convergences: tuple[Convergence, ...] = ()
    leaks: tuple[Leak, ...] = ()
    findings: tuple[Finding, ...] = ()
    exchanges: tuple[ExtenderExchange, ...] = ()
    batches: tuple[PodBatch, ...] = ()
    reclaimer_writes: tuple[ReclaimerWrite, ...] = ()
    band_pods: tuple[BandPod, ...] = ()
    refused_pods: tuple[RefusedPod, ...] = ()
    moves: MovesHistory = MovesHistory()

    @property
    def new_posts(self) -> list[Post]:
        return [post for post in self.posts if post.at >= self.since]

    @property
    def begun(self) -> list[Post]:
        """The requests that an intent permits only for a time: evictions, and for a move without a gap the request that
        detaches the pod, whose eviction follows when the replacement is ready. A label that a tenant has edited
        detaches it, too."""
        moved = {write.uid for write in self.moves.relabelings if write.value is None or not write.by_service}
        return [post for post in self.posts if post.uid not in moved] + [
            Post(
                at=detached.at,
                sent=detached.sent,
                namespace=detached.namespace,
                pod=detached.pod,
                workload=detached.workload,
                uid=detached.uid,
            )
            for detached in self.moves.detached
        ]

    @property
    def newly_begun(self) -> list[Post]:
        return [post for post in self.begun if post.at >= self.since]

    @property
    def evictions(self) -> list[Post]:
        """Evictions that succeeded, of this run and before: one per pod, in order of time."""
        return _first_of_each_pod(sorted(self.posts, key=lambda post: post.at))

    @property
    def new_evictions(self) -> list[Post]:
        return [post for post in self.evictions if post.at >= self.since]

    @property
    def new_intents(self) -> list[PublishedIntent]:
        return [published for published in self.intents if published.at >= self.since]

    def candidates(self) -> "Candidates":
        """The intents that may have caused a POST."""
        return Candidates(self.intents)


class Candidates:
    """Intents by pod."""

    def __init__(self, intents: Iterable[PublishedIntent]) -> None:
        self._of: dict[tuple[str, str, str | None], list[PublishedIntent]] = defaultdict(list)
        for published in intents:
            self._of[published.intent.namespace, published.intent.pod, published.intent.pod_uid].append(published)

    def __call__(self, post: Post) -> list[PublishedIntent]:
        """Intents for the same pod that were published before the POST."""
        return [published for published in self._of[post.namespace, post.pod, post.uid] if published.at <= post.at]


def _first_of_each_pod(posts: Iterable[Post]) -> list[Post]:
    """A second eviction of a terminating pod does not count."""
    counted: set[str | None] = set()
    first: list[Post] = []
    for post in posts:
        if post.executed and (post.uid is None or post.uid not in counted):
            counted.add(post.uid)
            first.append(post)
    return first
