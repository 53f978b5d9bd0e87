"""How many nodes fewer would be sufficient.

The answer is the smallest cluster with the same mix of node sizes that is as good as the present one with the stock
scheduler: nodes are above 80 % for no more hours, and at most one pod in 500 more than there is without a node.
Each size is replayed with the same seeds. The next size is halfway between one that is good enough and one that is not.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.lab.compare import ComparisonRequest, plans
from equipoise.lab.model.node_removal import with_fewer_nodes
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import PODS_PER_TOLERATED, STOCK, PlacementMode, RunFigures, Scenario
from equipoise.lab.runners import Runner

Limit = Literal["hours", "requests", "violations", ""]


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A size of the cluster that was replayed. The figures are means over the orders of arrival."""

    nodes: int
    hours_above_80: float
    unplaced: float
    violations: int


class NodesNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one way of placing and moving pods in one scenario."""

    scenario: Scenario
    policy: str
    placement: PlacementMode
    descheduler: bool
    nodes: int
    """The number of nodes of the trace."""

    needed: int | None
    """The number of nodes of the smallest cluster that was good enough; None if the present cluster is not."""

    next_smaller: int | None
    """The number of nodes of the largest cluster below `needed` that was not good enough; None if no smaller one was
    replayed. If it is `needed` − 1, `needed` is exact."""

    limited_by: Limit
    """The limit of `next_smaller`: more hours above 80 %, or more pods without a node than allowed. "": not known."""

    allowed_hours_above_80: float
    allowed_unplaced: float
    tried: tuple[Size, ...]
    """The replayed sizes, largest first."""

    @property
    def exact(self) -> bool:
        """Whether one node less was too few."""
        return self.needed is not None and self.next_smaller == self.needed - 1

    @property
    def label(self) -> str:
        hints = " (hints)" if self.placement == "hints" else ""
        return f"{self.policy}{hints}{' + descheduler' if self.descheduler else ''}"


class _Search:
    """The search for the needed nodes of one case. Sizes are numbers of removed nodes."""

    def __init__(self, plans_of_case: Sequence[ReplayPlan], most: int) -> None:
        self.plans = plans_of_case
        """One for each order of arrivals."""

        # The most removed nodes with which the cluster is good enough (-1: not known), and the fewest with which it is
        # not.
        self.enough, self.too_few = -1, most + 1
        self.sizes: dict[int, Size] = {}

    @property
    def next_removed(self) -> int | None:
        if not self.sizes:
            return 0
        return (self.enough + self.too_few) // 2 if self.enough >= 0 and self.too_few - self.enough > 1 else None


def cases(request: ComparisonRequest, settings: Settings) -> list[list[ReplayPlan]]:
    """The plans of each case, one for each order of arrivals; in each scenario the stock scheduler first.

    Without policies in the request, the configured one is compared with the stock scheduler. Raises ValueError for an
    unknown policy.
    """
    policies = request.policies or (settings.scorer.policy.policy_name(),)
    by_case: defaultdict[tuple[str, str, str, bool], list[ReplayPlan]] = defaultdict(list)
    for plan in plans(msgspec.structs.replace(request, policies=policies), settings):
        if plan.policy == STOCK and plan.descheduler and STOCK not in policies:
            continue
        by_case[plan.scenario, plan.policy, plan.placement, plan.descheduler].append(plan)
    return list(by_case.values())


def most_removed(trace: Trace) -> int:
    """The largest number of nodes that can be removed so that the capacity still covers the requests of all pods.

    0 if the capacity of the present cluster does not cover them.
    """
    replicas = trace.replicas()
    cpu = sum(
        workload.request_cpu_milli * int(count) for workload, count in zip(trace.workloads, replicas, strict=True)
    )
    memory = sum(
        workload.request_memory_mib * int(count) for workload, count in zip(trace.workloads, replicas, strict=True)
    )
    removed = 0
    while removed + 1 < len(trace.nodes):
        kept = with_fewer_nodes(trace, removed + 1).nodes
        if sum(node.cpu_milli for node in kept) < cpu or sum(node.memory_mib for node in kept) < memory:
            break
        removed += 1
    return removed


def replays_at_most(trace: Trace, plans_by_case: Sequence[Sequence[ReplayPlan]]) -> int:
    """An upper bound of the number of replays that `nodes_needed` runs."""
    return sum(map(len, plans_by_case)) * (1 + most_removed(trace).bit_length())


def nodes_needed(
    trace: Trace,
    plans_by_case: Sequence[Sequence[ReplayPlan]],
    runner: Runner,
    *,
    time_left: Callable[[], bool],
    on_replay: Callable[[RunFigures], None],
) -> list[NodesNeeded]:
    """The answer for each case. Once no time is left, no further sizes are replayed, and answers may be inexact."""
    most = most_removed(trace)
    searches = [_Search(plans_of, most) for plans_of in plans_by_case]
    allowed: dict[Scenario, Size] = {}
    while pending := [(search, removed) for search in searches if (removed := search.next_removed) is not None]:
        if allowed and not time_left():
            break
        replays = [
            (search, removed, msgspec.structs.replace(plan, removed_nodes=removed))
            for search, removed in pending
            for plan in search.plans
        ]
        figures: defaultdict[tuple[int, int], list[RunFigures]] = defaultdict(list)
        for number, run in runner(trace, [plan for *_, plan in replays]):
            search, removed, _ = replays[number]
            figures[id(search), removed].append(run.figures)
            on_replay(run.figures)
        for search, removed in pending:
            search.sizes[removed] = _size(figures[id(search), removed])
        allowed = allowed or {
            search.plans[0].scenario: _allowed(search.sizes[0], len(trace.pods))
            for search in searches
            if search.plans[0].policy == STOCK and not search.plans[0].descheduler
        }
        for search, removed in pending:
            if _limit(search.sizes[removed], allowed[search.plans[0].scenario]):
                search.too_few = removed
            else:
                search.enough = removed
    return [_answer(search, trace, allowed) for search in searches]


def _size(figures: Sequence[RunFigures]) -> Size:
    return Size(
        nodes=figures[0].nodes,
        hours_above_80=round(sum(run.hours_above_80 for run in figures) / len(figures), 2),
        unplaced=round(sum(run.unplaced for run in figures) / len(figures), 2),
        violations=sum(run.violations for run in figures),
    )


def _allowed(stock: Size, pods: int) -> Size:
    return msgspec.structs.replace(stock, unplaced=stock.unplaced + pods // PODS_PER_TOLERATED)


def _limit(size: Size, allowed: Size) -> Limit:
    """Why the size is not good enough; "" if it is."""
    if size.violations:
        return "violations"
    if size.unplaced > allowed.unplaced:
        return "requests"
    return "hours" if size.hours_above_80 > allowed.hours_above_80 else ""


def _answer(search: _Search, trace: Trace, allowed: Mapping[Scenario, Size]) -> NodesNeeded:
    plan, whole = search.plans[0], len(trace.nodes)
    most_allowed = allowed[plan.scenario]
    too_few = search.sizes.get(search.too_few)
    limit: Limit = "" if too_few is None else _limit(too_few, most_allowed)
    next_smaller = None if too_few is None else too_few.nodes
    if too_few is None and search.enough == search.too_few - 1:
        # No replay is needed: with one node less, the capacity does not cover the requests.
        limit, next_smaller = "requests", whole - search.too_few
    return NodesNeeded(
        scenario=plan.scenario,
        policy=plan.policy,
        placement="none" if plan.scoring is None else plan.placement,
        descheduler=plan.descheduler,
        nodes=whole,
        needed=whole - search.enough if search.enough >= 0 else None,
        next_smaller=next_smaller,
        limited_by=limit,
        allowed_hours_above_80=most_allowed.hours_above_80,
        allowed_unplaced=most_allowed.unplaced,
        tried=tuple(sorted(search.sizes.values(), key=lambda size: -size.nodes)),
    )
