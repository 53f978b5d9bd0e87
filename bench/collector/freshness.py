"""The time from a change of usage to a changed score, through kwok, Prometheus, collector, NATS and scorer.

On every node, a pod changes its memory usage at a random time, independent of scrapes and queries. From then on, the
score of the node is requested until it changes.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Mapping

import yaml

from bench.output import progress, report
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.runtime.bus import Bus, BusError, connect
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.kubernetes.client import PODS, Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import constant_usage_annotations, deployment, node, pod_template
from equipoise.testbed.processes.configuration import PrometheusConfiguration

NODES = 40
POLICY = {"name": "load_aware", "resourceWeights": {"memory": 1}}
"""Memory is a gauge. CPU is a rate, which varies even under constant usage."""

LOW, HIGH = 1_024, 9_216
"""MiB that the pod uses in turn. The difference is an eighth of a node."""

MIN_CHANGE = 0.2
"""Points (of 100) from which a score counts as changed; one new sample in the window changes it by more than one."""

WINDOW, LONGER_WINDOW = 6, 12
"""Scrape intervals per window. Short, so that a score is constant again before the next change; the measured time does
not depend on it. The policy uses the window named 5m."""

LIMIT = 120.0
"""Seconds."""


def configuration(cluster: Cluster, period: float, health: Mapping[str, str], listen: str) -> str:
    windows = [
        {"name": name, "length": f"{factor * period:g}s", "refreshPeriod": f"{period:g}s"}
        for name, factor in (("5m", WINDOW), ("15m", LONGER_WINDOW))
    ]
    return yaml.safe_dump(
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": cluster.nats_url},
            "kubernetes": {"kubeconfig": str(cluster.kubeconfig)},
            "load": {"coverage": {"nodeSettlingPeriod": "0s"}, "windows": windows},
            "collector": {
                "health": health["collector"],
                "prometheus": {"url": cluster.prometheus_url},
                "profile": {"enabled": False},
                "leaderElection": False,
            },
            "scorer": {"health": health["scorer"], "listen": listen, "policy": POLICY},
        }
    )


async def score_of(bus: Bus, name: str) -> float:
    """0..100, for a pod without requests."""
    response = await bus.request(SCORE_EXPLAIN, ExplainRequest(node=name), Explanation, timeout=5.0)
    node = next((node for node in response.nodes if node.node == name), None)
    if node is None or node.status or response.data_problem:
        raise LookupError(response.problem or response.data_problem or (node.why if node else ""))
    return node.score


async def wait_for_scores(bus: Bus, names: list[str]) -> None:
    reason: Exception | None = None
    for _ in range(300):
        try:
            if all([await score_of(bus, name) > 0.0 for name in names]):
                return
        except (BusError, LookupError) as error:
            reason = error
        await asyncio.sleep(1.0)
    raise TimeoutError(f"some nodes have no score: {reason}")


async def measure_changes(kube: Kube, bus: Bus, name: str, pod: str, period: float, rounds: int) -> list[float]:
    """Seconds from each change of the pod's usage to a changed score of its node."""
    generator, delays = random.Random(name), []
    for number in range(rounds):
        # Until the score is constant, and then for a random time.
        await asyncio.sleep((WINDOW + 2 + generator.uniform(0, WINDOW)) * period)
        before = await score_of(bus, name)
        started = time.monotonic()
        memory = LOW if number % 2 else HIGH
        await kube.annotate(PODS, pod, constant_usage_annotations(500, memory), namespace="default")
        while abs(await score_of(bus, name) - before) < MIN_CHANGE:
            if time.monotonic() - started > LIMIT:
                raise TimeoutError(f"the score of {name} did not change with the usage")
            await asyncio.sleep(max(0.05, period / 50))
        delays.append(time.monotonic() - started)
    return delays


async def one_pod_per_node(cluster: Cluster, names: list[str]) -> dict[str, str]:
    """The name of one pod of each node."""
    pods = (await cluster.request("GET", "/api/v1/namespaces/default/pods"))["items"]
    by_node = {pod["spec"].get("nodeName"): pod["metadata"]["name"] for pod in pods}
    return {name: by_node[name] for name in names}


async def measure(period: float, rounds: int) -> None:
    names = [f"node-{number:02}" for number in range(NODES)]
    async with Cluster(nats=True, prometheus=PrometheusConfiguration(scrape_interval=period)) as cluster:
        await cluster.add_nodes([node(name) for name in names])
        await setup_streams(Nats(url=cluster.nats_url), intent_max_age=60)
        template = pod_template("web", annotations=constant_usage_annotations(500, LOW))
        await cluster.apply([deployment("web", template, replicas=3 * NODES)])
        health = {name: f"127.0.0.1:{cluster.free_port()}" for name in ("collector", "scorer")}
        file = cluster.directory / "equipoise.yaml"
        file.write_text(configuration(cluster, period, health, f"127.0.0.1:{cluster.free_port()}"))
        environment = {**os.environ, "EQUIPOISE_CONFIG": str(file)}
        services = [
            cluster.guard.start(
                [sys.executable, "-m", f"equipoise.{name}"], log=cluster.directory / f"{name}.log",
                environment=environment,
            )
            for name in health
        ]  # fmt: skip
        connection = Kubernetes(kubeconfig=str(cluster.kubeconfig))
        try:
            async with (
                connect(Nats(url=cluster.nats_url), "bench") as bus,
                connect_kube(connection, "bench", SystemClock()) as kube,
            ):
                progress(f"scraping and querying every {period:g} s: waiting for scores")
                await wait_for_scores(bus, names)
                pods = await one_pod_per_node(cluster, names)
                progress("measuring")
                measured = await asyncio.gather(
                    *(measure_changes(kube, bus, name, pod, period, rounds) for name, pod in pods.items())
                )
        finally:
            for pid in services:
                cluster.guard.stop(pid)
    delays = sorted(seconds for each in measured for seconds in each)
    report(
        "freshness", delays[len(delays) // 2], f"s from usage to score, p50; scraped and queried every {period:g} s",
        p99=round(delays[int(len(delays) * 0.99)], 2), worst=round(delays[-1], 2), changes=len(delays),
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help=f"changes on each of the {NODES} nodes")
    parser.add_argument("--interval", type=float, nargs="*", default=[1.0, 15.0], help="seconds between scrapes")
    options = parser.parse_args()
    for interval in options.interval:
        asyncio.run(measure(interval, options.rounds))
