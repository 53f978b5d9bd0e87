"""What `bench.hints.hint_sizes` creates and computes."""

import json

import msgspec
import pytest
from bench.hints.hint_sizes import SIZES, WITHOUT, WORKLOADS, hint_objects, pod, report_rounds

from equipoise.contracts.hints.hints_object import HintsObject, workload_hints
from equipoise.contracts.hints.policy import SWITCH
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod
from equipoise.contracts.messages.placement import hint_key

NODES = [f"node-{number:04}" for number in range(1_000)]


@pytest.mark.parametrize("size", range(len(SIZES)))
def test_each_pod_gets_a_hint_of_its_size(size: int) -> None:
    hints = workload_hints(msgspec.convert(hint_objects(NODES), HintsObject))
    settings = list(SIZES.values())[size]
    for number in range(2 * WORKLOADS):
        workload = workload_from_pod(msgspec.convert(pod(size, number), Pod))
        assert workload is not None
        hint = hints[hint_key(workload)]
        assert len(hint.prefer) == settings.terms
        assert sum(weight > 0 for weight in hint.weights.values()) == settings.preferred_nodes
        assert sum(weight < 0 for weight in hint.weights.values()) == settings.avoided_nodes


def test_a_pod_without_a_hint_has_switched_hints_off() -> None:
    """And is otherwise like the others: kube-scheduler spreads it as well."""
    created = pod(None, 3)
    assert created["metadata"]["labels"].pop(SWITCH) == "off"
    assert created["metadata"].keys() == pod(0, 3)["metadata"].keys()
    assert created["spec"] == pod(0, 3)["spec"]


def test_ratios_are_of_the_same_round_and_of_the_burst_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The creation of the pods does not count."""
    costs = {"kube-scheduler": 1.0, "kube-apiserver": 2.0, "etcd": 5.0, "kwok": 5.0, "creation": 9.0}
    slower = {name: 10 * value for name, value in costs.items()}
    hinted = costs | {"kube-scheduler": 4.0, "creation": 90.0}
    slower_hinted = {name: 10 * value for name, value in hinted.items()}
    report_rounds([{WITHOUT: costs, "large": hinted}, {WITHOUT: slower, "large": slower_hinted}])
    _, large = map(json.loads, capsys.readouterr().out.splitlines())
    assert (large["size"], large["of_none"], large["creation"]) == ("large", 2.0, 495.0)
