"""Nodes, pod templates, and strategies of placements, for tests of the stock scheduler."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.pod_template import MIB, PodTemplate
from equipoise.lab.model.trace import AntiAffinity, TraceNode


def some_nodes(count: int, *, cpu_milli: int = 4_000, pods: int = 110) -> list[TraceNode]:
    return [
        TraceNode(name=f"node-{number}", cpu_milli=cpu_milli, memory_mib=8_192, pods=pods) for number in range(count)
    ]


def a_template(workload: int = 0, cpu_milli: int | None = 500, memory_mib: int = 512, **fields: Any) -> PodTemplate:
    return PodTemplate(workload=workload, cpu_milli=cpu_milli, memory=memory_mib * MIB, **fields)


tolerations = st.sampled_from([(), (Toleration(key="gpu", operator="Exists"),), (Toleration(operator="Exists"),)])
templates = st.builds(
    PodTemplate,
    workload=st.integers(0, 3),
    cpu_milli=st.sampled_from([None, 0, 300, 1_700]),
    memory=st.sampled_from([None, 0, 100 * MIB, 3_000 * MIB]),
    tolerations=tolerations,
    revision=st.integers(0, 1),
)
rules = st.lists(
    st.builds(AntiAffinity, beside=st.integers(0, 3), limited=st.integers(0, 3), most=st.integers(0, 2)), max_size=8
)


def violations(pods: Sequence[tuple[int, int]], rules: Sequence[AntiAffinity]) -> int:
    """Number of pods above the limits of rules, counted one by one; pods are (workload, node)."""
    count = Counter(pods)
    return sum(
        max(0, count[rule.limited, node] - rule.most)
        for rule in rules
        for node in {node for _, node in pods}
        if count[rule.beside, node]
    )
