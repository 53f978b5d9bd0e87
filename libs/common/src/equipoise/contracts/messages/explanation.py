"""`score.explain`: how nodes come to their scores."""

from typing import Literal

from equipoise.contracts.messages.message import Message, Value
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WindowUsage


class ExplainRequest(Message, frozen=True, kw_only=True):
    """Asked on `score.explain`: a pod by its name, any pod, or a node alone. It books nothing and changes nothing."""

    namespace: str = ""
    name: str = ""
    """Of a pod that has a node: explained as if it asked now, without itself on its node."""

    pod: PodDemand | None = None
    """Instead of a name: any pod, also one that does not exist."""

    node: str = ""
    """To be told of however it scores. Without a pod: as a pod sees it that asks for nothing."""

    nodes: list[str] = []
    """The candidates; empty: all that could hold the pod as far as the scorer knows. The pod's own node and `node` are
    candidates in any case."""


class Correction(Value, frozen=True, kw_only=True):
    """Pods that a window shows in part, and what they change in its mean."""

    amount: Resources = Resources()
    pods: list[str] = []
    """`namespace/name`, at most 10, those that change most first."""

    count: int = 0
    """Of all of them."""


class WindowExplanation(Value, frozen=True, kw_only=True):
    """One window of a node: measured mean + added − taken off (never below 0) + booked = load × base."""

    window: str
    measured: WindowUsage | None = None
    """As the collector said it; None: there is no value."""

    added: Correction = Correction()
    """Of pods that arrived and are not, or not wholly, in the mean yet."""

    subtracted: Correction = Correction()
    """Of pods that left or are leaving, and of the pod in question if it is here, as far as they are in the mean."""

    reserved: Resources = Resources()
    """Promised to pods that are not heard to be here yet."""

    load: Resources = Resources()
    """0..1 of the base, as the policy saw it; unknown where the value may not be used."""

    load_with_pod: Resources = Resources()
    statistics: dict[str, Resources] = {}
    """By name, as `load`: what the policy looks at beside the mean."""

    age: float | None = None
    """Seconds since the newest sample in it."""

    lifetime: float
    """Seconds for which its value may be used."""

    unknown_reason: str = ""
    """Why its value is not used; empty when it is."""


class NodeExplanation(Value, frozen=True, kw_only=True):
    """How one node came to its score, with all that went in."""

    node: str
    rank: int
    """1 is the best; nodes of equal answers are in the order of their scores."""

    extender_score: int
    """As kube-scheduler would be told: 0..10, or up to the resolution of the scorer."""

    score: float
    """0..100, the policy's; 0 for a node to keep away from."""

    parts: dict[str, float] = {}
    """By policy, where several are mixed."""

    status: Literal["", "unknown", "avoided", "overfull", "preferred"] = ""
    why: str = ""
    """What the standing comes from, as people read it."""

    base: Resources = Resources()
    """Cores and bytes that load refers to."""

    requests: Resources = Resources()
    limits: Resources = Resources()
    age: float | None = None
    """Seconds since the node's newest sample; None: nothing was heard."""

    lifetime: float
    """Seconds for which the node may go without a new one."""

    reserved_by_responses: int = 0
    """Pods that were lately told of it as a best node, and are not heard to be placed."""

    reserved_for_replacements: int = 0
    """Pods evicted for it whose replacements are on their way."""

    windows: list[WindowExplanation] = []


class RankChange(Value, frozen=True, kw_only=True):
    """What would have changed the order."""

    best: str
    runner_up: str
    cpu_change: float | None = None
    """Smallest change of the best node's CPU load, in points, with which the runner-up is better; None: there is none,
    or the order does not come from loads."""

    why: str
    """As people read it."""


class Explanation(Message, frozen=True, kw_only=True):
    """Answer to an explain question. Of many nodes it tells the best ones, the pod's own and the one asked about."""

    problem: str = ""
    """Why nothing can be explained, and what to do; empty when the rest is there."""

    pod: PodDemand | None = None
    """None: a pod that asks for nothing."""

    current_node: str = ""
    """The node that the pod has; it was scored without itself there."""

    policy: str = ""
    demand: Resources = Resources()
    """Expected usage, for the shortest window."""

    demand_sources: dict[str, str] = {}
    """Per resource the link of the chain that told."""

    chain: list[str] = []
    """Links in the order in which they are asked."""

    windows_used: list[str] = []
    """The windows that the policy looks at, the most telling first; empty where it looks at whole days."""

    level: Resources = Resources()
    """0..1: the load that nodes are led to."""

    compensation: str = ""
    """The mode: proportional, cliff, off."""

    considered: int = 0
    neutral: bool = False
    """All nodes get the same answer."""

    why: str = ""
    """Why it is neutral; empty when it is not."""

    data_problem: str = ""
    """What is wrong with the coverage; empty when enough is known."""

    nodes: list[NodeExplanation] = []
    """By rank."""

    rank_change: RankChange | None = None
    """None with fewer than two nodes."""

    notes: list[str] = []
    """What the numbers do not say, as people read it."""

    explained_at: float = 0.0
