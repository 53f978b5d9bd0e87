"""The scheduling library beside the real kube-scheduler: random clusters and pods, and what differs.

./run env PYTHONPATH=tests python -m scheduling.parity --family default --clusters 250 --pods 9 --seed 1
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator

from bench.output import progress, report
from scheduling.parity.comparison import Difference, compare, compare_all, text_of
from scheduling.parity.families.table import FAMILIES
from scheduling.parity.generator import ClusterGenerator
from scheduling.parity.outcome import Outcome
from scheduling.parity.real_scheduler import RealScheduler


async def measure(family: type[ClusterGenerator], first_seed: int, clusters: int, pods: int) -> Counter[str]:
    """Decisions by kind, and those that differ; each of these is printed."""
    found: Counter[str] = Counter()
    async with RealScheduler(victims_last=family.victims_last) as real:
        for seed in range(first_seed, first_seed + clusters):
            generator = family(seed)
            await real.prepare(generator)
            async for outcome, different in decisions(real, generator, pods):
                found["decisions"] += 1
                kind = "refused" if not outcome.node else "preempted" if outcome.removed else "placed"
                found[kind] += 1
                found["scored"] += bool(outcome.scores)
                found["scores"] += sum(map(len, outcome.scores.values()))
                if different:
                    found["different"] += 1
                    name = outcome.pod.metadata.name
                    print(f"{family.name}, seed {seed}, {name}: {text_of(different)}", file=sys.stderr)
            await real.clear()
            if (seed - first_seed + 1) % 10 == 0:
                done = f"{seed - first_seed + 1} clusters, {found['decisions']} pods"
                progress(f"{family.name}: {done}, {found['different']} different")
    return found


async def decisions(
    real: RealScheduler, generator: ClusterGenerator, pods: int
) -> AsyncIterator[tuple[Outcome, list[Difference]]]:
    """The outcomes of the pods of a cluster that was prepared, and what differs."""
    documents = generator.new_pods(pods)
    if generator.at_once:
        before, outcomes = await real.place_all(documents)
        for outcome, different in zip(outcomes, compare_all(before, outcomes, generator.configuration), strict=True):
            yield outcome, different
        return
    for number, document in enumerate(documents):
        await real.change(generator.changes(number))
        before = await real.state()
        placed = await real.place(document, before)
        if placed is not None:
            yield placed, compare(before, placed, generator.configuration)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=FAMILIES, help="what the clusters have; all of them if not given")
    parser.add_argument("--clusters", type=int, default=30, help="of each family")
    parser.add_argument("--pods", type=int, default=9, help="of each cluster")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in [options.family] if options.family else FAMILIES:
        found = asyncio.run(measure(FAMILIES[name], options.seed, options.clusters, options.pods))
        same = 100 * (1 - found["different"] / found["decisions"])
        kinds = ("decisions", "placed", "preempted", "refused", "scored", "scores", "different")
        details = {kind: found[kind] for kind in kinds}
        report("scheduling_parity", same, "% of decisions", target=(">=", 99.9), family=name, **details)


if __name__ == "__main__":
    main()
