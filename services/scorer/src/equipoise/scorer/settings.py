"""What the scorer is told: how to score, where to be asked. Load and thresholds are shared: see there."""

from typing import Annotated

from msgspec import Meta

from equipoise.contracts.duration import Duration
from equipoise.contracts.settings import Section
from equipoise.scorer.policies import Policy
from equipoise.scorer.policies.water_level import WaterLevel


class ExtenderTls(Section, frozen=True, kw_only=True):
    """Files in PEM format."""

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

    tls: ExtenderTls | None = None
    """null: plain HTTP."""


class ScorerSettings(Section, frozen=True, kw_only=True):
    """The scorer's own section."""

    health: str = "0.0.0.0:8083"
    """Where /healthz, /readyz, /metrics and /version are answered."""

    listen: str = "0.0.0.0:8888"
    """Where kube-scheduler asks: /prioritize and /filter."""

    neutral: bool = False
    """Answer neutral scores to everything: takes Equipoise out of scheduling without touching kube-scheduler."""

    policy: Policy = WaterLevel()

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

    extender: ExtenderSettings = ExtenderSettings()
