"""How many nodes fewer would be sufficient.

The answer is the smallest cluster with the same mix of node sizes that is as good as the present one with the stock
scheduler: nodes are above 80 % for no more hours, and at most one pod in 500 more than there is without a node.
Each size is replayed with the same seeds. The search with moves begins when that without moves has ended, at its
answer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from equipoise.lab.capacity.size_search import SizeSearch
from equipoise.lab.compare import ComparisonRequest, plans
from equipoise.lab.model.node_removal import with_fewer_nodes
from equipoise.lab.model.resource_requests import RequestsVariant, VariantName, with_requests
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import PODS_PER_TOLERATED, STOCK, PlacementMode, RunFigures, Scenario
from equipoise.lab.runners import Runner

_TICK = 900.0
"""Seconds between two evaluations of the descheduler, instead of five minutes: a replay takes a third of the time. As
many pods may be moved per hour, see `paced`."""

Limit = Literal["hours", "requests", "violations", ""]


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A size of the cluster that was replayed. The figures are means over the orders of arrival."""

    nodes: int
    hours_above_80: float
    unplaced: float
    violations: int
    memory_hours_above_100: float = 0.0


class NodesNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one way of placing and moving pods in one scenario."""

    scenario: Scenario
    policy: str
    placement: PlacementMode
    descheduler: bool
    requests: VariantName = "present"
    nodes: int
    """The number of nodes of the trace."""

    needed: int | None
    """The number of nodes of the smallest cluster that was good enough; None if the present cluster is not, or was not
    replayed."""

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
    def reference(self) -> bool:
        """Whether nothing is changed but the number of nodes."""
        return self.policy == STOCK and not self.descheduler and self.requests == "present"

    @property
    def label(self) -> str:
        hints = " (hints)" if self.placement == "hints" else ""
        requests = "" if self.requests == "present" else f", {self.requests} requests"
        return f"{self.policy}{hints}{' + descheduler' if self.descheduler else ''}{requests}"


@dataclass
class _Search:
    """The search for the needed nodes of one case. Sizes are numbers of removed nodes."""

    plans: Sequence[ReplayPlan]
    """One for each order of arrivals."""

    most: int
    after: "_Search | None"
    """The search for the same case without moves, whose answer is the first guess."""

    sizes: dict[int, Size] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.search = SizeSearch(self.most)

    @property
    def key(self) -> tuple[str, ...]:
        """The case without its moves."""
        plan = self.plans[0]
        return plan.scenario, plan.policy, plan.placement, plan.requests.name

    @property
    def baseline(self) -> bool:
        """Whether it has the limits of its scenario: the present cluster, its requests and the stock scheduler."""
        plan = self.plans[0]
        return plan.policy == STOCK and not plan.descheduler and plan.requests.name == "present"

    def next_sizes(self, width: int) -> Iterable[int]:
        """The sizes to replay next, at most `width`. None while another search must end first, and when it has
        ended."""
        if self.after is not None:
            if not self.after.ended:
                return ()
            return self.search.next_sizes(max(0, self.after.search.enough), width)
        # The figures of the present cluster are limits, or are compared.
        return {0} if not self.sizes else self.search.next_sizes(0, width)

    @property
    def ended(self) -> bool:
        return self.search.too_few - self.search.enough <= 1


def cases(
    request: ComparisonRequest, settings: Settings, variants: Sequence[RequestsVariant] = (RequestsVariant(),)
) -> list[list[ReplayPlan]]:
    """The plans of each case, one for each order of arrivals; in each scenario the stock scheduler first.

    `variants`: the requests that every case is replayed with; the present ones first. Recommended ones are replayed
    without moves only. Without policies in the request,
    the configured one is compared with the stock scheduler. Raises ValueError for an unknown policy.
    """
    policies = request.policies or (settings.scorer.policy.policy_name(),)
    by_case: defaultdict[tuple[str, str, str, bool], list[ReplayPlan]] = defaultdict(list)
    for plan in plans(msgspec.structs.replace(request, policies=policies), settings):
        if plan.policy == STOCK and plan.descheduler and STOCK not in policies:
            continue
        by_case[plan.scenario, plan.policy, plan.placement, plan.descheduler].append(plan)
    return [
        [msgspec.structs.replace(plan, requests=variant, tick=_TICK) for plan in case]
        for case in by_case.values()
        for variant in variants
        if not (variant.name == "recommended" and case[0].descheduler)
    ]


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


def replays_at_most(trace: Trace, plans_by_case: Sequence[Sequence[ReplayPlan]], width: int = 1) -> int:
    """An upper bound of the number of replays that `nodes_needed` runs."""
    return sum(len(case) * width * (2 + 2 * most.bit_length()) for case, most in _mosts(trace, plans_by_case))


def nodes_needed(
    trace: Trace,
    plans_by_case: Sequence[Sequence[ReplayPlan]],
    runner: Runner,
    *,
    time_left: Callable[[], bool],
    on_replay: Callable[[RunFigures], None],
    parallel: int = 1,
) -> list[NodesNeeded]:
    """The answer for each case. Once no time is left, no further sizes are replayed, and answers may be inexact.

    `parallel`: the number of replays that `runner` runs at a time.
    """
    searches = _searches(trace, plans_by_case)
    allowed: dict[Scenario, Size] = {}
    while time_left() or not allowed:
        running = sum(not search.ended and (search.after is None or search.after.ended) for search in searches)
        replays = [
            (search, removed, msgspec.structs.replace(plan, removed_nodes=removed))
            for search in searches
            for removed in search.next_sizes(max(1, parallel // max(1, running)))
            for plan in search.plans
        ]
        if not replays:
            break
        figures: defaultdict[tuple[int, int], list[RunFigures]] = defaultdict(list)
        for number, run in runner(trace, [plan for *_, plan in replays]):
            search, removed, _ = replays[number]
            figures[id(search), removed].append(run.figures)
            on_replay(run.figures)
        for search in searches:
            search.sizes |= {removed: _size(runs) for (of, removed), runs in figures.items() if of == id(search)}
        allowed = allowed or {
            search.plans[0].scenario: _allowed(search.sizes[0], len(trace.pods))
            for search in searches
            if search.baseline
        }
        for search in searches:
            for removed, size in search.sizes.items():
                limit = _limit(size, allowed[search.plans[0].scenario], trace)
                search.search.learn(removed, good_enough=not limit)
    return [_answer(search, trace, allowed) for search in searches]


def _mosts(trace: Trace, plans_by_case: Sequence[Sequence[ReplayPlan]]) -> list[tuple[Sequence[ReplayPlan], int]]:
    """Each case with the number of nodes that can be removed."""
    mosts: dict[str, int] = {}
    for case in plans_by_case:
        variant = case[0].requests
        if variant.name not in mosts:
            mosts[variant.name] = most_removed(with_requests(trace, variant))
    return [(case, mosts[case[0].requests.name]) for case in plans_by_case]


def _searches(trace: Trace, plans_by_case: Sequence[Sequence[ReplayPlan]]) -> list[_Search]:
    searches: list[_Search] = []
    without_moves: dict[tuple[str, ...], _Search] = {}
    for case, most in sorted(_mosts(trace, plans_by_case), key=lambda case: case[0][0].descheduler):
        search = _Search(case, most, None)
        search.after = without_moves.get(search.key)
        without_moves.setdefault(search.key, search)
        searches.append(search)
    order = {id(case): number for number, case in enumerate(plans_by_case)}
    return sorted(searches, key=lambda search: order[id(search.plans)])


def _size(figures: Sequence[RunFigures]) -> Size:
    return Size(
        nodes=figures[0].nodes,
        hours_above_80=round(sum(run.hours_above_80 for run in figures) / len(figures), 2),
        unplaced=round(sum(run.unplaced for run in figures) / len(figures), 2),
        violations=sum(run.violations for run in figures),
        memory_hours_above_100=round(sum(run.memory_hours_above_100 for run in figures) / len(figures), 2),
    )


def _allowed(stock: Size, pods: int) -> Size:
    return msgspec.structs.replace(stock, unplaced=stock.unplaced + pods // PODS_PER_TOLERATED)


def _limit(size: Size, allowed: Size, trace: Trace) -> Limit:
    """Why the size is not good enough; "" if it is. Hours count only if usage was measured."""
    if size.violations:
        return "violations"
    if size.unplaced > allowed.unplaced:
        return "requests"
    return "hours" if trace.measured and size.hours_above_80 > allowed.hours_above_80 else ""


def _answer(search: _Search, trace: Trace, allowed: Mapping[Scenario, Size]) -> NodesNeeded:
    plan, whole = search.plans[0], len(trace.nodes)
    enough, too_few = search.search.enough, search.search.too_few
    most_allowed = allowed[plan.scenario]
    size = search.sizes.get(too_few)
    limit: Limit = "" if size is None else _limit(size, most_allowed, trace)
    next_smaller = None if size is None else size.nodes
    if size is None and enough == search.most:
        # No replay is needed: with one node less, the capacity does not cover the requests.
        limit, next_smaller = "requests", whole - too_few
    return NodesNeeded(
        scenario=plan.scenario,
        policy=plan.policy,
        placement="none" if plan.scoring is None else plan.placement,
        descheduler=plan.descheduler,
        requests=plan.requests.name,
        nodes=whole,
        needed=whole - enough if enough >= 0 else None,
        next_smaller=next_smaller,
        limited_by=limit,
        allowed_hours_above_80=most_allowed.hours_above_80,
        allowed_unplaced=most_allowed.unplaced,
        tried=tuple(sorted(search.sizes.values(), key=lambda size: -size.nodes)),
    )
