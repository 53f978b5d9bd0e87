"""The example trace: generated, with daily curves, a few hot workloads and many that ask for far more than they use."""

import math
import random

from equipoise.cli.demo.trace import Trace, TraceNode, TraceWorkload

STEPS = 96
SECONDS_PER_STEP = 900.0

KINDS = (
    # name, workloads, replicas, request (milli, MiB), mean use (milli), use of memory (MiB), swing of the day (share)
    ("reserve", 10, (8, 11), (2400, 3584), (80, 300), (400, 900), 0.30),  # idle over-requesters
    ("service", 20, (14, 20), (150, 384), (80, 220), (300, 600), 0.35),
    ("engine", 22, (2, 4), (100, 512), (1150, 1850), (300, 480), 0.20),  # hot, and modest in what they ask for
    ("batch", 8, (12, 18), (100, 256), (40, 140), (200, 450), 0.50),  # busy at night
)


def example_trace(seed: int = 1, *, nodes: int = 40, steps: int = STEPS) -> Trace:
    """A fleet of two node sizes at about half of its CPU capacity; the same seed gives the same trace.

    `nodes` scales the number of workloads; with fewer `steps` the day is shorter, not coarser, and swings less, so that
    loads change as fast as on a whole one: windows of a fixed length must still see where they are.
    """
    chooser = random.Random(seed)
    calm = min(1.0, steps / STEPS)
    fleet = tuple(
        TraceNode(name=f"small-{index:02d}", cpu_milli=8_000, memory_mib=32_768)
        if index % 5 < 3
        else TraceNode(name=f"large-{index:02d}", cpu_milli=16_000, memory_mib=65_536)
        for index in range(nodes)
    )
    workloads = []
    for kind, count, replicas, (request_cpu, request_memory), cpu, memory, swing in KINDS:
        for index in range(max(1, round(count * nodes / 40))):
            mean = chooser.uniform(*cpu)
            peak_hour = chooser.gauss(2.0 if kind == "batch" else 14.0, 1.5)
            workloads.append(
                TraceWorkload(
                    name=f"{kind}-{index:02d}",
                    replicas=chooser.randint(*replicas),
                    request_cpu_milli=request_cpu,
                    request_memory_mib=request_memory,
                    cpu_milli=tuple(
                        round(mean * _day(step / steps * 24, peak_hour, calm * swing) * chooser.uniform(0.95, 1.05), 1)
                        for step in range(steps)
                    ),
                    memory_mib=(round(chooser.uniform(*memory), 1),) * steps,
                    protected_by_budget=index % 4 == 0,
                    excluded=kind == "service" and index % 7 == 6,
                )
            )
    return Trace(
        name=f"example (seed {seed})", nodes=fleet, workloads=tuple(workloads), seconds_per_step=SECONDS_PER_STEP
    )


def _day(hour: float, peak_hour: float, swing: float) -> float:
    """A day's shape around 1: 1 + swing at the peak hour, 1 − swing twelve hours later."""
    return 1.0 + swing * math.cos((hour - peak_hour) / 24 * 2 * math.pi)
