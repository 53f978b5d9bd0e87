"""The time until three scorers have processed the utilization of 5,000 nodes with their 150,000 pods."""

import asyncio
import random
import subprocess
import time
from contextlib import AsyncExitStack
from statistics import median

import psutil

from bench import clusters
from bench.output import progress, report
from bench.scorer.scorer_process import FilledBus, ScorerProcess, filled_bus
from equipoise.contracts.bus import subjects
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.main import reduce_gc_frequency

NODES, SCORERS, ROUNDS = 5_000, 3, 5


async def processed(scorer: ScorerProcess) -> tuple[int, float]:
    """Sequence of the next cycle that it has processed, and the time."""
    assert scorer.process.stdout is not None
    line = await asyncio.to_thread(scorer.process.stdout.readline)
    sequence, at = line.split()
    return int(sequence), float(at)


async def one_round(filled: FilledBus, scorers: list[ScorerProcess]) -> dict[str, float]:
    """Seconds until the bus had acknowledged all messages, until all scorers had processed them, and CPU seconds."""
    filled.sequence += 1
    generator, now = random.Random(filled.sequence), SystemClock().now()
    messages = [
        (subjects.node_utilization(placement.node), clusters.utilization(placement, now, generator, filled.sequence))
        for placement in filled.placements
    ]
    server = next(child for child in psutil.Process().children(recursive=True) if child.name() == "nats-server")
    before = [time.process_time(), sum(server.cpu_times()[:2]), *(scorer.cpu_seconds() for scorer in scorers)]
    started = time.monotonic()
    acknowledged = await filled.bus.publish_many(messages)
    published = time.monotonic() - started
    assert acknowledged == len(messages)
    applied = []
    for scorer in scorers:
        sequence = 0
        while sequence != filled.sequence:
            sequence, at = await processed(scorer)
        applied.append(at - started)
    after = [time.process_time(), sum(server.cpu_times()[:2]), *(scorer.cpu_seconds() for scorer in scorers)]
    cpu = [end - start for start, end in zip(before, after, strict=True)]
    return {
        "published": published,
        "applied": max(applied),
        "publisher_cpu": cpu[0],
        "server_cpu": cpu[1],
        "scorer_cpu": median(cpu[2:]),
    }


async def main() -> None:
    reduce_gc_frequency()
    async with AsyncExitStack() as stack:
        filled = await stack.enter_async_context(filled_bus(NODES))
        scorers = [
            await stack.enter_async_context(
                filled.scorer(
                    module="bench.scorer.watched_scorer",
                    environment={"WATCHED_NODES": str(NODES)},
                    stdout=subprocess.PIPE,
                )
            )
            for _ in range(SCORERS)
        ]
        for scorer in scorers:
            await scorer.ready()
        rounds = []
        for number in range(ROUNDS):
            await asyncio.sleep(2.0)
            rounds.append(await one_round(filled, scorers))
            progress(f"round {number + 1} of {ROUNDS}: " + ", ".join(f"{k} {v:.2f}" for k, v in rounds[-1].items()))
        middle = {key: median(each[key] for each in rounds) for key in rounds[0]}
        report(
            "publish_5000", middle.pop("applied"), f"s until {SCORERS} scorers had processed all", target=("<=", 2.0),
            best=round(min(each["applied"] for each in rounds), 2),
            **{f"{key}_seconds": round(value, 2) for key, value in middle.items()},
        )  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
