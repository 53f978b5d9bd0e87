"""The generated example of the demo: daily curves, a few hot workloads, many that request far more than they use."""

import math
import random

import numpy as np

from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE, NAMESPACE
from equipoise.lab.model.trace import Trace, TraceNode, TracePod, TraceWorkload

STEPS = 96
SECONDS_PER_STEP = 900.0

KINDS = (
    # name, workloads, replicas, request (milli, MiB), mean use (milli), use of memory (MiB), swing of the day (share)
    ("reserve", 10, (8, 11), (2400, 3584), (80, 300), (400, 900), 0.30),  # idle, with large requests
    ("service", 20, (14, 20), (150, 384), (80, 220), (300, 600), 0.35),
    ("engine", 22, (2, 4), (100, 512), (1150, 1850), (300, 480), 0.20),  # hot, with small requests
    ("batch", 8, (12, 18), (100, 256), (40, 140), (200, 450), 0.50),  # busy at night
)


def example_trace(seed: int = 1, *, nodes: int = 40, steps: int = STEPS) -> Trace:
    """Nodes of two sizes at about half of their CPU capacity; the same seed gives the same trace.

    `nodes` scales the number of workloads. Fewer `steps` make the day shorter. Its swings are then smaller, so
    that loads change as fast as on a whole day: windows of a fixed length must be able to follow them.
    """
    chooser = random.Random(seed)
    damping = min(1.0, steps / STEPS)
    workloads: list[TraceWorkload] = []
    pods: list[TracePod] = []
    cpu, memory = [], []
    for kind, count, replicas, (request_cpu, request_memory), cpu_range, memory_range, swing in KINDS:
        for index in range(max(1, round(count * nodes / 40))):
            name = f"{kind}-{index:02d}"
            mean = chooser.uniform(*cpu_range)
            peak_hour = chooser.gauss(2.0 if kind == "batch" else 14.0, 1.5)
            for number in range(chooser.randint(*replicas)):
                pods.append(TracePod(name=f"{name}-{number:02d}", workload=len(workloads)))
            hours = (step / steps * 24 for step in range(steps))
            cpu.append(
                [
                    round(mean * _day(hour, peak_hour, damping * swing) * chooser.uniform(0.95, 1.05), 1)
                    for hour in hours
                ]
            )
            memory.append([round(chooser.uniform(*memory_range), 1)] * steps)
            workloads.append(
                TraceWorkload(
                    name=name,
                    namespace=EXCLUDED_NAMESPACE if kind == "service" and index % 7 == 6 else NAMESPACE,
                    request_cpu_milli=request_cpu,
                    request_memory_mib=request_memory,
                )
            )
    return Trace(
        name=f"example (seed {seed})",
        nodes=tuple(
            TraceNode(name=f"small-{index:02d}", cpu_milli=8_000, memory_mib=32_768)
            if index % 5 < 3
            else TraceNode(name=f"large-{index:02d}", cpu_milli=16_000, memory_mib=65_536)
            for index in range(nodes)
        ),
        workloads=tuple(workloads),
        pods=tuple(pods),
        cpu_milli=np.array(cpu),
        memory_mib=np.array(memory),
        seconds_per_step=SECONDS_PER_STEP,
    )


def _day(hour: float, peak_hour: float, swing: float) -> float:
    """The shape of a day around 1: 1 + swing at the peak hour, 1 − swing twelve hours later."""
    return 1.0 + swing * math.cos((hour - peak_hour) / 24 * 2 * math.pi)
