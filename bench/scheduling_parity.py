"""The scheduling library beside the real kube-scheduler: random clusters and pods, and what differs.

python -m bench scheduling_parity --clusters 250 --pods 8 --seed 1
"""

import argparse
import asyncio
import sys
from collections import Counter

from bench.output import progress, report
from bench.parity.comparison import compare, text_of
from bench.parity.generator import ClusterGenerator
from bench.parity.real_scheduler import RealScheduler


async def measure(first_seed: int, clusters: int, pods: int) -> Counter[str]:
    """Decisions by kind, and those that differ; each of these is printed."""
    found: Counter[str] = Counter()
    async with RealScheduler() as real:
        for seed in range(first_seed, first_seed + clusters):
            generator = ClusterGenerator(seed)
            await real.prepare(generator)
            for document in generator.new_pods(pods):
                before = await real.state()
                outcome = await real.place(document, before)
                if outcome is None:
                    continue
                found["decisions"] += 1
                kind = "refused" if not outcome.node else "preempted" if outcome.removed else "placed"
                found[kind] += 1
                found["scored"] += bool(outcome.scores)
                found["scores"] += sum(map(len, outcome.scores.values()))
                if different := compare(before, outcome):
                    found["different"] += 1
                    print(f"seed {seed}, {document['metadata']['name']}: {text_of(different)}", file=sys.stderr)
            await real.clear()
            if (seed - first_seed + 1) % 10 == 0:
                progress(f"{seed - first_seed + 1} clusters, {found['decisions']} pods, {found['different']} different")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=250)
    parser.add_argument("--pods", type=int, default=9, help="of each cluster")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = asyncio.run(measure(options.seed, options.clusters, options.pods))
    same = 100 * (1 - found["different"] / found["decisions"])
    details = {name: found[name] for name in ("placed", "preempted", "refused", "scored", "scores", "different")}
    report("scheduling_parity", same, "% of decisions", target=(">=", 99.9), decisions=found["decisions"], **details)


if __name__ == "__main__":
    main()
