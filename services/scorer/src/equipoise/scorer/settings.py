"""What the scorer is told: how to score, where to be asked. Load and thresholds are shared: see there."""

from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies import Policy
from equipoise.scorer.decisions.policies.profile import Profile


class ExtenderTls(Section, frozen=True, kw_only=True):
    """Files in PEM format; taken up within seconds when they change. `equipoise certificates` makes them."""

    certificate_file: str
    key_file: str

    client_ca_file: str | None = None
    """Only callers with a certificate of this authority are answered; null: any caller."""


class ExtenderSettings(Section, frozen=True, kw_only=True):
    """How kube-scheduler is answered."""

    deadline: Annotated[float, Meta(gt=0)] = 0.1
    """Seconds after which an answer is neutral: half of the httpTimeout of the shipped extender entry.

    A network timeout: not divided by time compression.
    """

    concurrency: Annotated[int, Meta(ge=1)] = 64
    """Questions under way at once; more are turned away, and kube-scheduler goes on without us."""

    body_limit: Annotated[int, Meta(ge=2**20)] = 8 * 2**20
    """Bytes of a question."""

    keep_alive: Annotated[float, Meta(gt=90)] = 120.0
    """Seconds that an idle connection stays open: longer than kube-scheduler's 90, so that it is never we who close."""

    filter: bool = False
    """Refuse nodes that would be above their high mark with the pod. Needs `filterVerb: filter` in kube-scheduler."""

    resolution: Literal[10, 100] = 10
    """The highest integer of an answer; 100 only beside `weight: 1` in the extender's entry.

    kube-scheduler adds integer × weight × 10 points to a node and clamps nothing (pkg/scheduler/schedule_one.go of
    v1.36, MaxNodeScore ÷ MaxExtenderPriority). So 10 with the shipped weight of 5 spans 500 points in steps of 50, and
    100 with weight 1 spans 1,000 in steps of 10: twice the say, beside at most 1,200 points of its own plugins. 100
    with weight 5 would drown everything else.
    """

    tls: ExtenderTls | None = None
    """null: plain HTTP."""


class AdviceSettings(Section, frozen=True, kw_only=True):
    """Every placed pod is scored as if its scheduler had asked: `equipoise report` adds it up."""

    per_second: Annotated[float, Meta(ge=0)] = 10.0
    """Placements that are looked at, at most; what comes faster is counted as skipped. 0: none."""


class ScorerSettings(Section, frozen=True, kw_only=True):
    """The scorer's own section."""

    health: str = "0.0.0.0:8083"
    """Where /healthz, /readyz, /metrics and /version are answered."""

    listen: str = "0.0.0.0:8888"
    """Where kube-scheduler asks: /prioritize and /filter."""

    neutral: bool = False
    """Answer neutral scores to everything: takes Equipoise out of scheduling without touching kube-scheduler."""

    policy: Policy = Profile()

    shadow: Policy | None = None
    """A second policy that only looks on: what it would have answered is counted and told, and changes nothing."""

    least_spread: Annotated[float, Meta(ge=0, le=100)] = 5.0
    """Points of the policy by which best and worst node must differ, else the answer is neutral."""

    reservation: Annotated[float, Meta(ge=0)] = 2.0
    """Seconds for which an answer counts as load on the best nodes, at the longest until the pod is placed.

    It bridges the time between an answer and its placement being heard, which is the API server's and not the load's:
    not divided by time compression.
    """

    after_eviction: Duration = Duration(600)
    """So long the source of an eviction is avoided and its target preferred for the replacement."""

    decisions_per_second: Annotated[float, Meta(ge=0)] = 10.0
    """Answers published with their inputs on `decision.scorer.…`, at most; 0: none."""

    advice: AdviceSettings = AdviceSettings()

    extender: ExtenderSettings = ExtenderSettings()
