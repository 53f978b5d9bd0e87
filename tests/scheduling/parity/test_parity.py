"""The library decides as the real kube-scheduler: the short form of `python -m scheduling.parity`."""

import pytest
from scheduling.parity.comparison import compare, text_of
from scheduling.parity.families.handwritten import CASES, HandwrittenCluster
from scheduling.parity.families.selectors import SelectorsCluster
from scheduling.parity.generator import ClusterGenerator
from scheduling.parity.real_scheduler import RealScheduler

CLUSTERS = (
    *map(ClusterGenerator, range(1, 5)),
    SelectorsCluster(321),
    HandwrittenCluster(
        [case.name for case in CASES].index("namespaces that lack a label, or do not have a value of it")
    ),
)
PODS = 8


@pytest.mark.xdist_group("parity")
async def test_the_library_decides_as_kube_scheduler() -> None:
    """Feasible nodes, scores of each plugin, node, message, victims: of random pods in random clusters.

    Takes seconds: a real kube-scheduler starts and decides for every pod.
    """
    different = []
    decisions = 0
    async with RealScheduler() as real:
        for number, generator in enumerate(CLUSTERS):
            await real.prepare(generator)
            for document in generator.new_pods(PODS):
                before = await real.state()
                if (outcome := await real.place(document, before)) is not None:
                    decisions += 1
                    if found := compare(before, outcome, generator.configuration):
                        different.append(f"cluster {number}, {document['metadata']['name']}: {text_of(found)}")
            await real.clear()

    assert decisions > len(CLUSTERS) * PODS / 2
    assert different == []
