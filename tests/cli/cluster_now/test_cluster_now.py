"""Nodes, causes and the report of the cluster as it is now, without I/O."""

import io
from functools import partial
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_workload
from cli.narrow import assert_never_cut
from cli.programs import invoke
from descheduler.snapshots import a_pod, a_snapshot, cluster_of, evaluation_settings, placements_of
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.causes import UnevenWorkload, causes, most_uneven
from equipoise.cli.cluster_now.node_list import NodeList
from equipoise.cli.cluster_now.node_list import show as show_nodes
from equipoise.cli.cluster_now.nodes import NodeNow, counted, known_text, nodes_now
from equipoise.cli.cluster_now.reading import ClusterNow
from equipoise.cli.cluster_now.spread import spread_of
from equipoise.cli.main import COMMANDS
from equipoise.cli.prometheus.profiles import ProfileMatch, best_profile, configured_profile, no_profile_problem
from equipoise.cli.report.now.figures import NowReport, now_report
from equipoise.cli.report.now.show import reason, show
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.messages.utilization import ResourceStatus
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad

CLUSTER = ClusterName(context="home", cluster="castle", server="https://castle")


def a_node(name: str, cpu: float | None, **fields: Any) -> NodeNow:
    defaults: dict[str, Any] = {
        "load": Resources(cpu=cpu), "requested": Resources(cpu=0.5), "usage": Resources(), "requests": Resources(),
        "allocatable": Resources(), "pods": 1,
    }  # fmt: skip
    return NodeNow(node=name, **(defaults | fields))


# nodes


def test_nodes_are_sorted_by_load_and_those_of_unknown_load_come_last() -> None:
    """With the reason; requests are a share of what is allocatable."""
    view = cluster_of(a_pod("web-1", "node-a"), a_pod("web-2", "node-b"), nodes=("node-b", "node-a", "node-c"))
    nodes = [node for node in view.nodes if node.name != "node-c"]
    silent = next(node for node in view.nodes if node.name == "node-c")
    silent = msgspec.structs.replace(silent, usage={}, unknown="its newest sample is 500.0 s old")

    found = nodes_now([silent, *nodes], {}, {"node-c": UnknownUsage("stale", "newest sample is 500 s old")}, {}, "5m")

    assert ["node-b", "node-a", "node-c"] == [node.node for node in found]
    assert "newest sample is 500 s old" == found[-1].unknown
    assert (Resources(cpu=0.8, memory=0.0625), Resources(cpu=0.01)) == (
        found[0].load, msgspec.structs.replace(found[0].requested, memory=None),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (Resources(cpu=0.0, memory=0.0), "the node offers no cpu and no memory, or it is not known how much"),
        (Resources(cpu=8.0, memory=0.0), "the node offers no memory, or it is not known how much"),
        (Resources(), "the node offers no cpu and no memory, or it is not known how much"),
    ],
)
def test_a_node_that_offers_nothing_is_unknown_with_the_reason(base: Resources, reason: str) -> None:
    """The kubelet of such a node reports an allocatable amount of 0, or none."""
    node = msgspec.structs.replace(cluster_of().nodes[0], base=base)
    assert [reason] == [found.unknown for found in nodes_now([node], {}, {}, {}, "5m")]


def test_a_node_with_one_unknown_resource_has_the_reason_and_is_counted_as_unknown() -> None:
    """A CPU value that cannot be true once left an empty note, and "8 of 8 known"."""
    nodes = [node for node in cluster_of().nodes if node.name == "node-a"]
    partly = msgspec.structs.replace(nodes[0], usage={"5m": Resources(memory=GIB)})
    other = next(node for node in cluster_of().nodes if node.name == "node-b")
    why = UnknownUsage("above capacity", "cpu: value is 19.5 where the machine has 16")

    found = nodes_now([partly, other], {}, {"node-a": why}, {}, "5m")
    without_reason = nodes_now([partly, other], {}, {}, {}, "5m")

    assert {"node-a": why.text, "node-b": ""} == {node.node: node.unknown for node in found}
    assert {"node-a": "no value of cpu", "node-b": ""} == {node.node: node.unknown for node in without_reason}
    assert "known: 1 of 2 nodes" == known_text(found)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"cordoned": True}, "cordoned"), ({"ready": False}, "not Ready"),
        ({"labels": {"type": "virtual-kubelet"}}, "virtual node (virtual-kubelet)"),
        ({"taints": [Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")]}, "control plane"),
    ],
)  # fmt: skip
def test_nodes_without_ordinary_pods_do_not_count(fields: dict[str, Any], why: str) -> None:
    """Their low load is not uneven."""
    found = nodes_now(cluster_of().nodes, {"node-a": a_placement("node-a", **fields)}, {}, {}, "5m")

    assert {"node-a": why, "node-b": ""} == {node.node: node.set_apart for node in found}
    assert ["node-b"] == [node.node for node in counted(found)]


def test_the_spread_is_the_highest_minus_the_lowest_load() -> None:
    """An unknown load does not count as 0; one node has no spread."""
    found = spread_of([Resources(cpu=0.9), Resources(cpu=0.2, memory=0.5), Resources(cpu=0.4)])
    assert pytest.approx(0.7) == found.spread.cpu
    assert (None, 0.5, pytest.approx(0.5)) == (found.spread.memory, found.mean.memory, found.mean.cpu)
    assert "cpu" == most_uneven(found.spread)
    assert "memory" == most_uneven(Resources(memory=0.1))


# causes


def the_causes(
    usage: dict[str, dict[str, float]], loads: dict[str, float], request: float | None = 0.1
) -> list[UnevenWorkload]:
    """`usage`: cores by node and pod; a pod `web-1` is of the workload `web`. Nodes have ten cores."""
    placements, utilization = {}, {}
    for node, pods in usage.items():
        placed = [
            a_placed_pod(
                pod, uid=f"{node}/{pod}", workload=a_workload(pod.rpartition("-")[0]), requests=Resources(cpu=request)
            )
            for pod in pods
        ]
        placements[node] = a_placement(node, placed)
        measured = {f"{node}/{pod}": Resources(cpu=cores, memory=GIB) for pod, cores in pods.items()}
        utilization[node] = a_node_utilization(node, cpu=10 * loads[node], pods=measured)
    nodes = [a_node(name, load) for name, load in loads.items()]
    return causes(nodes, "cpu", placements, utilization, 3)


def test_a_share_is_one_of_all_that_raises_nodes_above_the_mean() -> None:
    """Workloads that use less there than elsewhere do not reduce it; a DaemonSet is no cause, however much it uses."""
    usage = {
        "a": {"web-1": 4.0, "web-2": 2.0, "agent-1": 3.0},
        "b": {"web-3": 1.0, "agent-2": 3.0, "batch-1": 1.0},
        "c": {"agent-3": 3.0, "batch-2": 0.0},
    }
    found = the_causes(usage, {"a": 0.9, "b": 0.5, "c": 0.3})

    assert ["web"] == [cause.workload.name for cause in found]
    assert pytest.approx(1.0) == found[0].share
    assert (3, 2, 1) == (found[0].pods, found[0].pods_above, found[0].nodes_above)
    assert pytest.approx(7 / 3) == found[0].usage


nodes_of_pods = st.lists(
    st.dictionaries(st.sampled_from([f"w{i}-{j}" for i in range(4) for j in range(2)]), st.floats(0, 5), max_size=6),
    min_size=2,
    max_size=6,
)


@given(pods=nodes_of_pods, system=st.lists(st.floats(0, 0.5), min_size=6, max_size=6))
def test_shares_add_up_to_100_percent_at_most(pods: list[dict[str, float]], system: list[float]) -> None:
    """Whatever the pods and what runs outside of them use."""
    usage = {f"node-{number}": of_node for number, of_node in enumerate(pods)}
    loads = {name: sum(of_node.values()) / 10 + system[i] for i, (name, of_node) in enumerate(usage.items())}
    shares = [cause.share for cause in the_causes(usage, loads)]

    assert all(0 < share <= 1 + 1e-9 for share in shares)
    assert sum(shares) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (None, "it requests no CPU, so the scheduler counts it as nothing; its pod is on a node above the mean"),
        (0.5, "it uses 8.0 times its CPU request, by which the scheduler places it; its pod"),
        (4.0, "it uses 100% of its CPU request; its pod"),
    ],
)
def test_a_cause_compares_usage_and_request(request_: float | None, text: str) -> None:
    found = the_causes({"a": {"web-1": 4.0}, "b": {}}, {"a": 0.4, "b": 0.0}, request_)
    assert reason(found[0]).startswith(text)


def test_even_nodes_and_unmeasured_pods_have_no_cause() -> None:
    """A pod of unknown usage is not counted as 0 either."""
    assert [] == the_causes({"a": {"web-1": 1.0}, "b": {"web-2": 1.0}}, {"a": 0.1, "b": 0.1})
    assert [] == causes([a_node("a", 0.9), a_node("b", 0.1)], "cpu", {}, {}, 3)


def test_terminating_pods_are_no_cause() -> None:
    """Nothing can be changed about them; the share of the others is still that in all that is above the mean."""
    pods = [
        a_placed_pod("old-1", uid="old", workload=a_workload("old"), terminating=True),
        a_placed_pod("web-1", uid="web", workload=a_workload("web")),
    ]
    used = {"old": Resources(cpu=6.0), "web": Resources(cpu=2.0)}
    utilization = {"a": a_node_utilization("a", cpu=8.0, pods=used), "b": a_node_utilization("b", cpu=0.0)}
    [cause] = causes(
        [a_node("a", 0.8), a_node("b", 0.0)], "cpu", {"a": a_placement("a", pods), "b": a_placement("b", [])},
        utilization, 3,
    )  # fmt: skip

    assert ("web", pytest.approx(0.25)) == (cause.workload.name, cause.share)


# the report


def the_report(**fields: Any) -> NowReport:
    """node-a has 8 of 10 cores, two of them of each of its four pods. It should have 5.3 at most."""
    pods = [a_pod(f"web-{number}", "node-a") for number in range(4)]
    measured = {pod.metadata.uid: Resources(cpu=2.0, memory=GIB) for pod in pods}
    snapshot = a_snapshot(*pods)
    utilization = {
        "node-a": a_node_utilization("node-a", cpu=8.0, pods=measured), "node-b": a_node_utilization("node-b", cpu=1.0)
    }  # fmt: skip
    snapshot = msgspec.structs.replace(snapshot, nodes=utilization)
    defaults: dict[str, Any] = {
        "snapshot": snapshot, "placements": placements_of(("node-a", "node-b"), pods), "unknown": {},
        "not_expected": {}, "missing": (), "problem": "", "hours": 24,
    }  # fmt: skip
    settings = evaluation_settings(strategies=(LowNodeLoad(margin=12.0),))
    return now_report(
        ClusterNow(**(defaults | fields)), settings, cluster=CLUSTER, prometheus="http://prometheus",
        profile="kubelet", profile_detected=True, options=["--prometheus", "http://prometheus"],
    )  # fmt: skip


def text_of(report: NowReport, width: int = 400) -> str:
    to = io.StringIO()
    show(report, Console(file=to, width=width))
    return to.getvalue()


def test_the_report_names_detached_pods_with_their_workload() -> None:
    assert "Detached" not in text_of(the_report())
    pod = a_placed_pod("web-1", workload=a_workload(), detached=True)
    report = the_report(placements={"node-a": a_placement("node-a", [pod])})
    assert f"Detached by moves without a gap: shop/web-1 of {a_workload()}\n" in text_of(report)


def test_the_report_estimates_the_spread_after_all_moves() -> None:
    """The next evaluation moves one pod of a workload; the estimate is of all moves."""
    report = the_report()
    assert (1, 2) == (len(report.prospect.moves), report.prospect.all_moves)
    assert report.prospect.after is not None
    assert pytest.approx(0.7) == report.before.spread.cpu
    assert pytest.approx(0.1) == report.prospect.after.spread.cpu
    assert pytest.approx(0.5) == report.prospect.hottest_after
    assert "CPU spread 70.0 → 10.0 points, hottest node 80.0% → 50.0%, by moving 2 pods in all" in text_of(report)
    assert [] == report.unknown


@pytest.mark.parametrize(
    ("reason_", "text"),
    [("request too low", "Raise the CPU request of Deployment/shop/web to about the usage"), ("placement", "")],
)
def test_a_request_that_is_too_low_is_to_be_raised(reason_: Any, text: str) -> None:
    """A workload that uses about what it requests needs no other request."""
    report = the_report()
    causes = [msgspec.structs.replace(cause, reason=reason_) for cause in report.causes]
    shown = text_of(msgspec.structs.replace(report, causes=causes))

    assert text in shown
    assert bool(text) == ("Raise the" in shown)


def test_without_the_right_to_list_budgets_nothing_is_planned() -> None:
    """All else is reported."""
    report = the_report(missing=("poddisruptionbudgets.policy",))
    assert ([], "poddisruptionbudgets.policy" in report.prospect.problem) == (report.prospect.moves, True)
    assert ["web"] == [cause.workload.name for cause in report.causes]
    assert "Not known: this user may not list poddisruptionbudgets.policy" in text_of(report)


def test_what_is_not_known_has_a_reason_and_a_fix() -> None:
    """Then the first command to run is doctor."""
    silent = a_snapshot(nodes=("node-a", "node-b", "node-c"))
    nodes = {name: each for name, each in silent.nodes.items() if name != "node-c"}
    report = the_report(
        snapshot=msgspec.structs.replace(silent, nodes=nodes),
        placements=placements_of(("node-a", "node-b", "node-c"), ()),
        unknown={"node-c": UnknownUsage("no sample", "cpu: no sample")}, hours=3, problem="memory of pods: too slow",
    )  # fmt: skip
    text = text_of(report)
    assert "the load of 1 node: node-c: cpu: no sample" in text
    assert "→ check that the node is scraped" in text
    assert "21 of the past 24 hours" in text
    assert "memory of pods: too slow" in text
    assert report.next[0].command == "equipoise doctor --prometheus http://prometheus"


def test_a_further_resource_that_is_not_known_is_named_with_the_reason() -> None:
    """Also if no threshold of it exists: in the report, and as a column of the list of nodes."""
    nodes = {
        name: msgspec.structs.replace(a_node_utilization(name, cpu=8.0), resources={"gpu": ResourceStatus(unknown=why)})
        for name, why in (("node-a", "no sample"), ("node-b", "its capacity is 0"))
    }
    report = the_report(snapshot=msgspec.structs.replace(a_snapshot(), nodes=nodes))
    to = io.StringIO()
    listed = NodeList(cluster=CLUSTER, at=NOW, window="5m", spread=report.before, nodes=report.hottest)
    show_nodes(listed, Console(file=to, width=400), wide=False)

    assert "the gpu load of 2 nodes: node-a: no sample; node-b: its capacity is 0" in text_of(report)
    assert "gpu load" in to.getvalue()


def test_no_terminal_is_too_narrow() -> None:
    """The commands at the end of the report are left out: they are never folded, so that they can be pasted."""
    report = msgspec.structs.replace(the_report(), next=[])
    nodes = [*report.hottest, a_node("gpu-1", None, set_apart="cordoned", unknown="its newest sample is 500 s old")]
    listed = NodeList(cluster=CLUSTER, at=NOW, window="5m", spread=report.before, nodes=nodes)
    assert_never_cut(show, report)
    assert_never_cut(partial(show_nodes, wide=True), listed)


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_a_narrow_terminal_cuts_no_cell(width: int) -> None:
    text = " ".join(text_of(the_report(), width).split())
    assert "…" not in text
    for cell in ("node-a", "80.0%", "Deployment/shop/web", "shop/web-0", "threshold"):
        assert cell in "".join(text.split()), f"{cell} is cut at {width} columns"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--now", "--since", "3d"), "--since and --html are of the report of the past: omit them, or --now"),
        (("--now", "--html", "report.html"), "--since and --html are of the report of the past: omit them, or --now"),
        (("--since", "3d", "--prometheus", "http://localhost"), "--prometheus is of the report of what is uneven now"),
        (("--nats", "nats://localhost"), "options of NATS are of the report of the past: add --since, for example"),
    ],
)
def test_the_options_of_the_two_reports_exclude_one_another(options: tuple[str, ...], problem: str) -> None:
    """Without --since, the report is that of now; --now, which stated this once, is accepted."""
    result = invoke("report", *options)
    assert 2 == result.exit_code
    assert problem in " ".join(result.output.split())


def test_the_report_names_commands_that_exist() -> None:
    """Each with the options with which this one was run; those that change the cluster are of kubectl."""
    ours = [step.command for step in the_report().next if not step.changes_cluster]
    kubectl = [step.command for step in the_report().next if step.changes_cluster]

    assert {"nodes", "lab", "up"} == {command.split()[1] for command in ours} <= set(COMMANDS)
    assert all(" --prometheus http://prometheus" in command for command in ours)
    assert ["kubectl -n shop set resources deployment/web --requests=cpu=2000m"] == kubectl
    assert "Commands of kubectl change the cluster." in text_of(the_report())
    assert "change the cluster" not in text_of(msgspec.structs.replace(the_report(), next=[]))


# profiles


EIGHT = {"cpu": 8, "memory": 8}
FITS = ProfileMatch(nodes=EIGHT, sampled=EIGHT, pods=9, sampled_pods=9)
NONE = ProfileMatch(nodes={"cpu": 0, "memory": 0}, sampled={"cpu": 0, "memory": 0})
FEWER = msgspec.structs.replace(FITS, nodes={"cpu": 1, "memory": 8})
FORGED = msgspec.structs.replace(FITS, one_target_each=False)
YOUNG = ProfileMatch(nodes={"cpu": 0, "memory": 0}, sampled=EIGHT, sampled_pods=9)


@pytest.mark.parametrize(
    ("matches", "best"),
    [
        ({"kubelet": FITS, "kube-prometheus": FITS}, "kubelet"),
        ({"kubelet": NONE, "kube-prometheus": FITS}, "kube-prometheus"),
        ({"kubelet": ProfileMatch(nodes=EIGHT, sampled=EIGHT), "kube-prometheus": FITS}, "kube-prometheus"),
        (
            {"kubelet": msgspec.structs.replace(FITS, nodes={"cpu": 1, "memory": 8}), "kube-prometheus": FITS},
            "kube-prometheus",
        ),
        ({"kubelet": YOUNG, "kube-prometheus": FITS}, "kube-prometheus"),
        ({"kubelet": NONE, "kube-prometheus": YOUNG}, "kube-prometheus"),
        ({"kubelet": FORGED, "kube-prometheus": FEWER}, "kube-prometheus"),
        ({"kubelet": FORGED, "kube-prometheus": NONE}, "kubelet"),
        ({"kubelet": NONE, "kube-prometheus": ProfileMatch(problem="too slow")}, None),
    ],
)
def test_the_profile_with_pods_and_most_nodes_is_best(matches: dict[str, ProfileMatch], best: str | None) -> None:
    """Nodes of known usage count; soon after the start of Prometheus, nodes with series."""
    assert best == best_profile(matches)


def test_the_missing_series_are_named_in_one_sentence() -> None:
    matches = {
        "kubelet": NONE,
        "kube-prometheus": ProfileMatch(sampled={"cpu": 3, "memory": 0}),
        "recording-rules": NONE,
    }
    problem, fix = no_profile_problem(matches, "workingSet")
    assert problem == (
        "no profile fits, because these series are missing: node_cpu_usage_seconds_total and "
        "node_memory_working_set_bytes (kubelet), node_memory_MemTotal_bytes (kube-prometheus), "
        "equipoise:node_cpu_seconds:sum and equipoise:node_memory_working_set_bytes (recording-rules)"
    )
    assert "/metrics/resource" in fix
    foreign = ProfileMatch(sampled={"cpu": 0, "memory": 0}, foreign_series='node="other"')
    assert 'one has node="other"' in no_profile_problem({"kubelet": foreign}, "workingSet")[0]


def test_a_profile_is_configured_in_the_file_or_by_a_variable() -> None:
    """A default is no choice."""
    assert configured_profile({}, {}) is None
    assert configured_profile({"collector": {"prometheus": {"url": "http://p"}}}, {}) is None
    document = {"collector": {"prometheus": {"profile": "kube-prometheus"}}}
    assert "kube-prometheus" == configured_profile(document, {})
    assert "kubelet" == configured_profile(document, {"EQUIPOISE_COLLECTOR__PROMETHEUS__PROFILE": "kubelet"})
