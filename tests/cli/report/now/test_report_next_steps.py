"""The commands at the end of `report`, and requests that are many times the usage."""

import shlex
from typing import Any

import pytest
from builders import GIB, a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization
from cli.cluster_now.test_cluster_now import the_report
from cli.narrow import assert_never_cut
from descheduler.snapshots import a_pod
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from equipoise.cli.cluster_now.causes import Reason, UnevenWorkload
from equipoise.cli.report.now.kubectl import restart, set_request
from equipoise.cli.report.now.next_steps import NextStep, next_steps
from equipoise.cli.report.now.oversized import MIN_HOURS, OversizedWorkload, oversized
from equipoise.cli.report.now.show import show
from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.messages.values.resources import Resources

WEB = a_workload("web")
KUBECTL = ("kubectl",)
AMPLE = Resources(cpu=100.0, memory=1_000 * GIB)


def a_container(name: str = "app", cpu: str = "100m", limit: str = "") -> Container:
    requests, limits = {"cpu": cpu} if cpu else {}, {"cpu": limit} if limit else {}
    return Container(name=name, resources=ResourceRequirements(requests=requests, limits=limits))


def pod_of(*containers: Container, **spec: Any) -> Pod:
    return a_pod("web-1", containers=list(containers), **spec)


# kubectl


@pytest.mark.parametrize(
    ("containers", "wanted", "options"),
    [
        ([a_container()], 0.9, "--requests=cpu=900m"),
        ([a_container()], 1.2345, "--requests=cpu=1300m"),
        ([a_container()], 0.903, "--requests=cpu=910m"),
        ([a_container()], 0.9004, "--requests=cpu=900m"),
        ([a_container(cpu="")], 0.0004, "--requests=cpu=1m"),
        ([a_container(limit="800m")], 0.9, "--requests=cpu=800m"),
        ([a_container("app", "200m"), a_container("proxy", "100m")], 1.0, "-c app --requests=cpu=900m"),
        ([a_container("proxy", "100m"), a_container("app", "")], 1.0, "-c proxy --requests=cpu=1000m"),
    ],
)
def test_a_request_is_raised_to_the_usage(containers: list[Container], wanted: float, options: str) -> None:
    """To two digits, within the limit. Of several containers one is changed: without -c kubectl changes all of them."""
    command = set_request(WEB, pod_of(*containers), "cpu", wanted, KUBECTL)
    assert f"kubectl -n shop set resources deployment/web {options}" == command


def test_the_requests_of_sidecars_count() -> None:
    """An init container that runs as long as the pod. Others end before the pod uses anything."""
    sidecar = replace(a_container("mesh", "300m"), restart_policy="Always")
    pod = pod_of(a_container(), init_containers=[sidecar, a_container("migrate", "500m")])
    command = set_request(WEB, pod, "cpu", 0.9, KUBECTL)
    assert command == "kubectl -n shop set resources deployment/web --requests=cpu=600m"


def test_memory_is_in_mebibytes() -> None:
    command = set_request(WEB, a_pod("web-1"), "memory", 1.5 * GIB, KUBECTL)
    assert command is not None
    assert command.endswith("--requests=memory=1600Mi")


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        (pod_of(a_container()), a_workload("web", kind="Job", group="batch")),
        (pod_of(a_container()), a_workload("web", kind="Deployment", group="apps.example.com")),
        (pod_of(a_container(cpu="2")), WEB),
        (pod_of(a_container(limit="100m")), WEB),
        (pod_of(a_container(cpu="nothing")), WEB),
        (pod_of(a_container(), resources=ResourceRequirements(requests={"cpu": "1"})), WEB),
        (pod_of(), WEB),
    ],
)
def test_there_is_no_command_that_would_fail_or_change_nothing(pod: Pod, workload: Any) -> None:
    """Kinds without a template that may change, requests that are high enough, limits, and requests of whole pods."""
    assert set_request(workload, pod, "cpu", 1.0, KUBECTL) is None


amounts = st.integers(0, 8_000)


@given(
    requests=st.lists(amounts, min_size=1, max_size=3),
    limit=st.none() | st.integers(1, 8_000),
    wanted=st.floats(0.001, 64.0),
    lower=st.booleans(),
)
def test_after_the_command_a_pod_requests_what_is_wanted(
    requests: list[int], limit: int | None, wanted: float, lower: bool
) -> None:
    """Never above the limit of the container, and never in the other direction."""
    containers = [
        a_container(f"c{number}", f"{request}m", "" if limit is None else f"{max(limit, request)}m")
        for number, request in enumerate(requests)
    ]
    command = set_request(WEB, pod_of(*containers), "cpu", wanted, KUBECTL, lower=lower)
    if command is None:
        return
    words = shlex.split(command)
    changed = words[words.index("-c") + 1] if "-c" in words else "c0"
    amount = parse_quantity(words[-1].rpartition("=")[2])
    before = {each.name: parse_quantity(each.resources.requests["cpu"]) for each in containers}
    after = sum({**before, changed: amount}.values())

    assert (after < sum(before.values())) if lower else (after > sum(before.values()))
    if limit is None:
        assert 0.98 * wanted - 0.001 <= after <= wanted + max(0.001, 0.1 * amount) + 1e-6
    else:
        assert amount <= max(limit / 1_000, before[changed]) + 1e-9


def test_pods_that_would_not_move_are_not_restarted() -> None:
    """A pod of a DaemonSet comes back to its node, and a bare pod not at all."""
    assert "kubectl -n shop rollout restart deployment/web" == restart(WEB, KUBECTL)
    for kind, group in (("DaemonSet", "apps"), ("Pod", ""), ("Rollout", "argoproj.io")):
        assert restart(a_workload("web", kind=kind, group=group), KUBECTL) is None


# oversized


def found(
    usage: float = 0.1, request: float = 2.0, hours: int = 24, peak: float = 0.2, terminating: str = ""
) -> list[OversizedWorkload]:
    """Two pods on two nodes, with this usage now and this highest hour. `terminating`: the nodes whose pods end."""
    placements, utilization = {}, {}
    for node in ("a", "b"):
        pod = a_placed_pod(
            f"web-{node}", workload=WEB, requests=Resources(cpu=request, memory=0.0), terminating=node in terminating
        )
        placements[node] = a_placement(node, [pod])
        utilization[node] = a_node_utilization(node, pods={pod.uid: Resources(cpu=usage, memory=GIB)})
    profile: dict[str, list[float | None]] = {"cpu": [peak, *[0.01] * (hours - 1), *[None] * (24 - hours)]}
    return oversized(placements, utilization, {WEB: a_workload_utilization(WEB, profile=profile)}, AMPLE, 3)


def test_a_request_of_many_times_the_highest_usage_reserves_in_vain() -> None:
    """What counts is the highest hour of the day, or a pod that uses more now."""
    assert [("web", "cpu", 2, 2.0, 0.2)] == [
        (each.workload.name, each.resource, each.pods, each.request, each.highest) for each in found()
    ]
    assert pytest.approx(3.5) == found()[0].reserved
    assert [0.5] == [each.highest for each in found(usage=0.5)]


@pytest.mark.parametrize(
    "fields", [{"peak": 0.8}, {"usage": 0.8}, {"hours": MIN_HOURS - 1}, {"request": 0.25, "peak": 0.02, "usage": 0.02}]
)
def test_a_request_that_may_be_needed_is_not_called_too_high(fields: dict[str, Any]) -> None:
    """It is needed at some hour, or by one pod, or the day is not measured, or it is too small to matter."""
    assert [] == found(**fields)


def test_terminating_pods_request_nothing_that_can_be_changed() -> None:
    assert [1] == [each.pods for each in found(terminating="a")]
    assert [] == found(terminating="ab")


def test_an_unknown_usage_is_not_taken_for_0() -> None:
    pod = a_placed_pod("web-a", workload=WEB, requests=Resources(cpu=2.0))
    unknown = a_node_utilization("a", pods={pod.uid: Resources(memory=GIB)})
    usage = a_workload_utilization(WEB, profile={"cpu": [0.1] * 24})
    assert [] == oversized({"a": a_placement("a", [pod])}, {"a": unknown}, {WEB: usage}, AMPLE, 3)


# next steps


def a_cause(reason: Reason, name: str = "web") -> UnevenWorkload:
    return UnevenWorkload(
        workload=a_workload(name), resource="cpu", share=0.5, pods=2, pods_above=2, nodes_above=1, usage=0.9,
        request=0.1, reason=reason,
    )  # fmt: skip


def steps(*causes: UnevenWorkload, sizes: list[OversizedWorkload] | None = None, options: Any = ()) -> list[NextStep]:
    placements = {"a": a_placement("a", [a_placed_pod("web-1", workload=WEB)])}
    return next_steps(causes, sizes or [], placements, [pod_of(a_container(cpu="2"))], options, unknown=False)


def commands(found: list[NextStep]) -> list[str]:
    return [step.command for step in found if step.changes_cluster]


def test_requests_are_corrected_first_and_pods_in_the_wrong_place_are_created_again() -> None:
    assert ["kubectl -n shop set resources deployment/web --requests=cpu=2500m"] == commands(
        steps(replace(a_cause("request too low"), usage=2.5))
    )
    assert ["kubectl -n shop rollout restart deployment/web"] == commands(steps(a_cause("placement")))
    assert ["kubectl -n shop set resources deployment/web --requests=cpu=250m"] == commands(steps(sizes=found()))
    assert [] == commands(steps(a_cause("request too low", "unknown-pods")))


@pytest.mark.parametrize(
    ("installed", "last"),
    [
        (True, "equipoise plan --context castle --namespace balance"),
        (False, "equipoise up --context castle --prometheus http://a"),
    ],
)
def test_the_last_command_shows_what_equipoise_would_do(installed: bool, last: str) -> None:
    """Where it is installed, nobody should start a second one."""
    options = ("--context", "castle", "--namespace", "balance", "--prometheus", "http://a")
    assert last == next_steps([], [], {}, [], options, unknown=False, installed=installed)[-1].command


def test_which_of_several_containers_uses_the_cpu_is_not_claimed() -> None:
    """Usage is measured by pod: the command to find out is beside the one that raises a request."""
    placements = {"a": a_placement("a", [a_placed_pod("web-1", workload=WEB)])}
    pods = [pod_of(a_container("app", ""), a_container("proxy", "100m"))]
    (step, *_) = next_steps([a_cause("request too low")], [], placements, pods, (), unknown=False)
    assert step.command == "kubectl -n shop set resources deployment/web -c proxy --requests=cpu=900m"
    assert "which container uses it shows `kubectl -n shop top pod --containers`" in step.purpose


def test_pods_are_not_replaced_for_a_small_part_of_what_is_uneven() -> None:
    """A workload of 0 % was once to be restarted."""
    assert [] == commands(steps(replace(a_cause("placement"), share=0.004)))


def test_kubectl_gets_the_cluster_of_the_report() -> None:
    """Its options, and not those that it does not have."""
    options = ["--prometheus", "http://p", "--kubeconfig", "'/my files/config'", "--context", "prod"]
    shown = steps(a_cause("placement"), options=options)
    assert [
        "kubectl --kubeconfig '/my files/config' --context prod -n shop rollout restart deployment/web"
    ] == commands(shown)
    assert all(" --prometheus http://p" in step.command for step in shown if not step.changes_cluster)


def test_no_terminal_is_too_narrow_for_requests_that_are_too_high() -> None:
    """Commands are the exception: they are not folded, so that they can be pasted."""
    report = replace(the_report(), oversized=found(), next=[])
    assert_never_cut(show, report)
