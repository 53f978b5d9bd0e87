"""The library decides as the real kube-scheduler: the short form of `make bench BENCH=scheduling_parity`."""

import pytest
from bench.parity.comparison import compare, text_of
from bench.parity.generator import ClusterGenerator
from bench.parity.real_scheduler import RealScheduler

SEEDS = range(1, 7)
PODS = 8


@pytest.mark.xdist_group("parity")
async def test_the_library_decides_as_kube_scheduler() -> None:
    """Feasible nodes, scores of each plugin, node, message, victims: of random pods in random clusters."""
    different = []
    decisions = 0
    async with RealScheduler() as real:
        for seed in SEEDS:
            generator = ClusterGenerator(seed)
            await real.prepare(generator)
            for document in generator.new_pods(PODS):
                before = await real.state()
                if (outcome := await real.place(document, before)) is not None:
                    decisions += 1
                    if found := compare(before, outcome):
                        different.append(f"seed {seed}, {document['metadata']['name']}: {text_of(found)}")
            await real.clear()

    assert decisions > len(SEEDS) * PODS / 2
    assert different == []
