"""The example trace."""

import numpy as np
import pytest
from lab.trace_folders import assert_same

from equipoise.lab.example import FOLDER, example_trace
from equipoise.lab.formats import load_trace


def test_the_included_example_equals_the_generated_one() -> None:
    """Otherwise run python -m equipoise.lab.example."""
    assert_same(example_trace(), load_trace(FOLDER))
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_example_has_the_documented_size(seed: int) -> None:
    """20 nodes of two sizes, one of them tainted, some 300 pods of 40 workloads, two days, one rule."""
    trace = example_trace(seed)

    assert (20, 40, 192, 1) == (len(trace.nodes), len(trace.workloads), trace.steps, len(trace.rules))
    assert 280 <= len(trace.pods) <= 330
    assert 2 == len({node.cpu_milli for node in trace.nodes})
    assert 1 == sum(bool(node.taints) for node in trace.nodes)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_placement_of_the_example_is_valid(seed: int) -> None:
    """Requests fit; the taint and the rule are observed."""
    trace = example_trace(seed)
    for node in trace.nodes:
        workloads = [pod.workload for pod in trace.pods if pod.node == node.name]
        works = [trace.workloads[index] for index in workloads]

        assert sum(work.request_cpu_milli for work in works) <= node.cpu_milli
        assert sum(work.request_memory_mib for work in works) <= node.memory_mib
        assert not node.taints or all(work.tolerations for work in works)
        assert all(workloads.count(rule.limited) <= rule.most for rule in trace.rules)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_loads_of_the_example_are_uneven(seed: int) -> None:
    """At the peak, which is during the day, the mean load is about half, and the spread above 40 points."""
    trace = example_trace(seed)
    use = dict.fromkeys((node.name for node in trace.nodes), np.zeros(trace.steps))
    for pod in trace.pods:
        use[pod.node] = use[pod.node] + trace.cpu_milli[pod.workload]
    total = np.sum([*use.values()], axis=0)
    peak = int(total.argmax())
    loads = [use[node.name][peak] / node.cpu_milli for node in trace.nodes]

    assert 0.40 <= total[peak] / sum(node.cpu_milli for node in trace.nodes) <= 0.70
    assert 9 <= peak % 96 / 4 <= 19
    assert max(loads) - min(loads) > 0.40


def test_the_example_depends_on_the_seed_only() -> None:
    assert_same(example_trace(3), example_trace(3))
    assert not np.array_equal(example_trace(3).cpu_milli, example_trace(4).cpu_milli)
