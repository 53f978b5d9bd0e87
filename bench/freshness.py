"""How old a score's knowledge is: from a usage that changes to a score that follows, through the whole real chain.

kwok, Prometheus, collector, NATS and scorer are the real ones. Pods of all nodes change their memory at moments that
have nothing to do with those of scraping and asking; from then on the scorer is asked for the node's score until it is
another.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Mapping

import yaml

from bench.line import progress, say
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
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
"""Memory is told as it is, cpu as a rate that moves a little by itself."""

LOW, HIGH = 1_024, 9_216
"""MiB that a pod uses, by turns: an eighth of its node more or less."""

LEAST_CHANGE = 0.2
"""Points of 100 by which a score has followed; one new sample in the window makes more than a point."""

WINDOW, LONGER_WINDOW = 6, 12
"""Periods in a window. Shorter than usual, so that a score comes to rest between two changes; how old it is does not
depend on that. The policy looks at the one called 5m."""

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
    """0..100, of a pod that asks for nothing."""
    told = await bus.request(SCORE_EXPLAIN, ExplainRequest(node=name), Explanation, timeout=5.0)
    found = next((each for each in told.nodes if each.node == name), None)
    if found is None or found.status or told.data_problem:
        raise LookupError(told.problem or told.data_problem or (found.why if found else ""))
    return found.score


async def warmed_up(bus: Bus, names: list[str]) -> None:
    why: Exception | None = None
    for _ in range(300):
        try:
            if all([await score_of(bus, name) > 0.0 for name in names]):
                return
        except (BusError, LookupError) as error:
            why = error
        await asyncio.sleep(1.0)
    raise TimeoutError(f"not every node has a score: {why}")


async def changes(kube: Kube, bus: Bus, name: str, pod: str, period: float, rounds: int) -> list[float]:
    """Seconds from each change of this pod's usage until its node's score is another."""
    chance, found = random.Random(name), []
    for number in range(rounds):
        # It has come to rest, and when exactly it changes is left to chance.
        await asyncio.sleep((WINDOW + 2 + chance.uniform(0, WINDOW)) * period)
        before = await score_of(bus, name)
        begun = time.monotonic()
        memory = LOW if number % 2 else HIGH
        await kube.annotate(PODS, pod, constant_usage_annotations(500, memory), namespace="default")
        while abs(await score_of(bus, name) - before) < LEAST_CHANGE:
            if time.monotonic() - begun > LIMIT:
                raise TimeoutError(f"the score of {name} did not follow the usage")
            await asyncio.sleep(max(0.05, period / 50))
        found.append(time.monotonic() - begun)
    return found


async def pod_of_each(cluster: Cluster, names: list[str]) -> dict[str, str]:
    """By node one of its pods."""
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
                progress(f"scraped and asked every {period:g} s: warming up")
                await warmed_up(bus, names)
                pods = await pod_of_each(cluster, names)
                progress("measuring")
                measured = await asyncio.gather(
                    *(changes(kube, bus, name, pod, period, rounds) for name, pod in pods.items())
                )
        finally:
            for pid in services:
                cluster.guard.stop(pid)
    found = sorted(seconds for each in measured for seconds in each)
    say(
        "freshness", found[len(found) // 2], f"s from usage to score, p50; scraped and asked every {period:g} s",
        p99=round(found[int(len(found) * 0.99)], 2), worst=round(found[-1], 2), changes=len(found),
    )  # fmt: skip


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3, help=f"changes of each of the {NODES} nodes")
    arguments.add_argument("--pace", type=float, nargs="*", default=[1.0, 15.0], help="seconds between scrapes")
    asked = arguments.parse_args()
    for pace in asked.pace:
        asyncio.run(measure(pace, asked.rounds))
