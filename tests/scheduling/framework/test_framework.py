"""In which order plugins are called, and what their results mean."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import PreFiltered, Refusal
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.status import SKIP, SUCCESS, Code, PluginStatus, unresolvable, unschedulable
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit

NODES = 3


def three() -> ClusterSnapshot:
    return ClusterSnapshot([a_node(f"node-{number}") for number in range(NODES)])


class Refuses:
    """Refuses these nodes."""

    def __init__(self, name: str, *rows: int, code: Code = Code.UNSCHEDULABLE) -> None:
        self.name = name
        self.rows = rows
        self.code = code
        self.asked: list[list[int]] = []

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        self.asked.append(rows.tolist())
        return [Refusal(nodes=np.isin(rows, self.rows), reason=f"refused by {self.name}", code=self.code)]


class OneNode:
    """Answers for one node; refuses the first."""

    name = "OneNode"

    def filter_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> PluginStatus:
        return unschedulable("not the first") if snapshot.name(row) == "node-0" else SUCCESS

    def score_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> int:
        return 10 * row


class PreFilters:
    """Returns this, and records that it was called."""

    def __init__(self, name: str, result: PreFiltered) -> None:
        self.name = name
        self.result = result
        self.calls = 0

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        self.calls += 1
        return self.result

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        return [Refusal(nodes=np.ones(len(rows), dtype=np.bool_), reason=f"refused by {self.name}")]


class Raises:
    name = "Raises"

    def filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows) -> Sequence[Refusal]:
        raise ZeroDivisionError("oh")


def filtered(framework: Framework, snapshot: ClusterSnapshot, pod: PodInfo | None = None) -> dict[int, PluginStatus]:
    found = framework.filter(CycleState(), pod or a_pod(), snapshot, snapshot.rows)
    return dict(found.by_node())


def test_the_first_plugin_that_refuses_a_node_decides() -> None:
    framework = a_framework(Refuses("a", 0), Refuses("b", 0, 1, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE))

    found = filtered(framework, three())

    assert found == {
        0: PluginStatus(code=Code.UNSCHEDULABLE, reasons=("refused by a",), plugin="a"),
        1: PluginStatus(code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons=("refused by b",), plugin="b"),
    }


def test_no_plugin_is_called_when_no_node_is_left() -> None:
    last = Refuses("last")
    filtered(a_framework(Refuses("all", 0, 1, 2), last), three())

    assert last.asked == []


def test_several_reasons_of_a_plugin_are_kept_and_the_strictest_code_counts() -> None:
    snapshot = ClusterSnapshot(
        [a_node("small", cpu="1", memory="1Gi")], [a_pod("old", {"memory": "1Gi"}, node_name="small")]
    )

    [status] = filtered(a_framework(NodeResourcesFit()), snapshot, a_pod("new", {"cpu": "2", "memory": "1Gi"})).values()

    assert status.reasons == ("Insufficient cpu", "Insufficient memory")
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_plugin_for_one_node_works() -> None:
    snapshot = three()
    framework = a_framework(OneNode())

    assert list(filtered(framework, snapshot)) == [0]
    scores = framework.score(CycleState(), a_pod(), snapshot, snapshot.rows)
    assert scores.total.tolist() == [0, 10, 20]


def test_a_plugin_that_skips_the_pod_is_not_asked_to_filter() -> None:
    framework = a_framework(PreFilters("skips", PreFiltered(status=SKIP)))
    state, snapshot = CycleState(), three()

    assert framework.pre_filter(state, a_pod(), snapshot) == (SUCCESS, None)
    assert framework.filter(state, a_pod(), snapshot, snapshot.rows).passed.all()


def test_names_of_several_plugins_intersect() -> None:
    def framework(*names: str) -> Framework:
        return a_framework(
            PreFilters("a", PreFiltered(nodes=frozenset({"node-0", "node-1"}))),
            PreFilters("b", PreFiltered(nodes=frozenset(names))),
        )

    assert framework("node-1", "node-2").pre_filter(CycleState(), a_pod(), three()) == (SUCCESS, {"node-1"})
    status, _ = framework("node-2").pre_filter(CycleState(), a_pod(), three())
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("node(s) didn't satisfy plugin(s) [a b] simultaneously",)


@pytest.mark.parametrize(("refusal", "calls"), [(unschedulable("no"), 1), (unresolvable("never"), 0)])
def test_only_an_unresolvable_refusal_ends_pre_filter_at_once(refusal: PluginStatus, calls: int) -> None:
    """Preemption needs the state of all plugins."""
    later = PreFilters("later", PreFiltered())
    status, _ = a_framework(PreFilters("first", PreFiltered(status=refusal)), later).pre_filter(
        CycleState(), a_pod(), three()
    )

    assert (status.plugin, status.code, later.calls) == ("first", refusal.code, calls)


def test_an_error_of_a_plugin_names_it() -> None:
    with pytest.raises(PluginFailed, match="plugin Raises failed in filter: ZeroDivisionError: oh"):
        filtered(a_framework(Raises()), three())


def _raises_late() -> Iterator[Refusal]:
    yield from ()
    raise ValueError("late")


@pytest.mark.parametrize(
    ("refusals", "why"),
    [
        (_raises_late, "ValueError: late"),
        (lambda: None, "TypeError: .*not iterable"),
        (lambda: [Refusal(nodes=np.array([True, False]), reason="mine")], "ValueError: a refusal has 2 nodes, not 1"),
    ],
    ids=["raises while it is read", "nothing", "another number of nodes"],
)
def test_refusals_that_cannot_be_used_name_their_plugin(refusals: Callable[[], Any], why: str) -> None:
    class Mine:
        name = "Mine"

        def filter(self, *arguments: Any) -> Any:
            return refusals()

    snapshot = ClusterSnapshot([a_node()])

    with pytest.raises(PluginFailed, match=f"plugin Mine failed in filter: {why}"):
        a_framework(Mine()).filter(CycleState(), a_pod(), snapshot, snapshot.rows)


def test_every_call_can_be_measured() -> None:
    calls = []

    def measure(plugin: str, point: str, call):  # type: ignore[no-untyped-def]
        calls.append((plugin, point))
        return call()

    framework = Framework({"filter": [Refuses("a")]}, {}, measure=measure)
    filtered(framework, three())

    assert calls == [("a", "filter")]


@pytest.mark.parametrize(("priority", "passes"), [(5, False), (0, False), (-1, True)])
def test_room_is_left_for_nominated_pods_of_at_least_the_same_priority(priority: int, passes: bool) -> None:
    """0 is the priority of the pod."""
    snapshot = ClusterSnapshot([a_node("small", cpu="1"), a_node("other", cpu="1")])
    nominated = Nominated()
    nominated.add(a_pod("nominated", {"cpu": "1"}, priority=priority), "small")
    before = snapshot.requested.tolist()

    found = a_framework(NodeResourcesFit()).filter_with_nominated(
        CycleState(), a_pod("new", {"cpu": "1"}), snapshot, snapshot.rows, nominated
    )

    assert found.passed.tolist() == [passes, True]
    assert found.reasons() == ({} if passes else {"Insufficient cpu": 1})
    assert snapshot.requested.tolist() == before


def test_a_node_must_also_fit_without_the_nominated_pods() -> None:
    """They may end up elsewhere."""

    class NeedsCompany:
        name = "NeedsCompany"

        def filter_node(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, row: int) -> PluginStatus:
            return SUCCESS if list(snapshot.pods_on(row)) else unschedulable("nobody is here")

    snapshot = three()
    nominated = Nominated()
    nominated.add(a_pod("nominated", priority=1), "node-1")

    found = a_framework(NeedsCompany()).filter_with_nominated(
        CycleState(), a_pod("new"), snapshot, snapshot.rows, nominated
    )

    assert not found.passed.any()


class Reserves:
    """Records its calls; `refuses`: reserve does not succeed, `raises`: both methods fail."""

    def __init__(self, name: str, calls: list[str], *, refuses: bool = False, raises: bool = False) -> None:
        self.name = name
        self.calls = calls
        self.refuses = refuses
        self.raises = raises

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginStatus:
        self.calls.append(f"reserve {self.name}")
        if self.raises:
            raise ValueError("a bug")
        return unschedulable("taken") if self.refuses else SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self.calls.append(f"unreserve {self.name}")
        if self.raises:
            raise ValueError("a bug")


def test_after_a_refused_reserve_all_plugins_unreserve_in_reverse_order() -> None:
    calls: list[str] = []
    plugins = [Reserves("A", calls), Reserves("B", calls, refuses=True), Reserves("C", calls)]
    status = Framework({"reserve": plugins}, {}).reserve(CycleState(), a_pod(), "node-1")

    assert (status.plugin, status.reasons) == ("B", ("taken",))
    assert calls == ["reserve A", "reserve B", "unreserve C", "unreserve B", "unreserve A"]


def test_an_error_in_reserve_keeps_no_plugin_from_unreserving() -> None:
    calls: list[str] = []
    framework = Framework({"reserve": [Reserves("A", calls), Reserves("B", calls, raises=True)]}, {})
    with pytest.raises(PluginFailed, match="plugin B failed in reserve: ValueError: a bug"):
        framework.reserve(CycleState(), a_pod(), "node-1")

    assert calls == ["reserve A", "reserve B", "unreserve B", "unreserve A"]
    assert [error.plugin for error in framework.unreserve(CycleState(), a_pod(), "node-1")] == ["B"]
