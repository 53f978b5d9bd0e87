"""kube-scheduler: the fit check of the contracts."""

from builders import refusal
from peers.cases import Case, peer_cases

from equipoise.contracts.fit import fit_node, fit_pod
from equipoise.contracts.fit.node_rules import shortages
from equipoise.contracts.kubernetes import objects

UNITS = {"cpu_m": ("cpu", "m"), "ephemeral": ("ephemeral-storage", "")}
NAMES = {name: case_name for case_name, (name, _) in UNITS.items()}

# NodeResourcesFit as a filter


def quantities(amounts: dict[str, float]) -> dict[str, str]:
    pairs = [(*UNITS.get(name, (name, "")), amount) for name, amount in amounts.items()]
    return {name: f"{amount}{unit}" for name, unit, amount in pairs}


def a_container(amounts: dict[str, float]) -> objects.Container:
    return objects.Container(resources=objects.ResourceRequirements(requests=quantities(amounts)))


@peer_cases("fit_filter", where=lambda case: "ignored" not in case.inputs)
def test_requests_fit(case: Case) -> None:
    """Every resource that is short is named, with what is requested, used and allocatable."""
    inputs = case.inputs
    spec = objects.PodSpec(
        containers=[a_container(container) for container in inputs["pod"]["containers"]],
        init_containers=[a_container(container) for container in inputs["pod"].get("init_containers", [])],
    )
    pod = fit_pod(objects.Pod(metadata=objects.ObjectMeta(uid="new"), spec=spec))
    running = objects.PodSpec(containers=[a_container(inputs["used"])])
    running_pod = fit_pod(objects.Pod(metadata=objects.ObjectMeta(uid="old"), spec=running))
    status = objects.NodeStatus(allocatable=quantities(inputs["allocatable"]))
    node = fit_node(objects.Node(metadata=objects.ObjectMeta(name="node"), status=status), [running_pod])

    found = [
        [NAMES.get(short.resource, short.resource), *(scale * amount for amount in amounts)]
        for short in shortages(pod, node)
        for scale in [1000 if short.resource == "cpu" else 1]
        for amounts in [(short.requested, short.used, short.allocatable)]
    ]
    assert bool(refusal(pod, node)) == bool(found)
    # The code shows whether preemption may help: the fit check never preempts.
    case.check(insufficient=found, without=["code"])
