"""How old a score's knowledge is: from a usage that changes to a score that stands on it, through the whole real chain.

kwok, Prometheus, collector, NATS and scorer are the real ones. A usage may change at any moment; it has reached the
scores once a sample taken later has. The scorer is asked ten times a second which sample a node's load stands on, which
tells the delay of every moment of the run.
"""

import argparse
import asyncio
import os
import sys
from bisect import bisect_left

import yaml

from bench.line import progress, say
from equipoise.contracts.messages import ExplainQuestion, Explanation
from equipoise.contracts.subjects import SCORE_EXPLAIN
from equipoise.runtime.bus import Bus, BusError, connect
from equipoise.runtime.clock import SystemClock
from equipoise.runtime.kube import PODS, connect_kube
from equipoise.runtime.settings import Kubernetes, Nats
from equipoise.runtime.streams import setup_streams
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.configuration import PrometheusConfiguration
from equipoise.testbed.objects import deployment, node, pod_template
from equipoise.testbed.usage import constant_usage_annotations

NODES = 20
NODE = "node-00"
GIB = 2.0**30
ASKING_PERIOD = 0.1


def configuration(cluster: Cluster, refresh: float, health: dict[str, str], listen: str) -> str:
    # Shorter than usual, so that there is something to know soon; how old it is does not depend on that.
    windows = [
        {"name": name, "length": f"{factor * refresh:g}s", "refreshPeriod": f"{refresh:g}s"}
        for name, factor in (("15m", 12), ("1h", 24))
    ]
    return yaml.safe_dump(
        {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "nats": {"url": cluster.nats_url},
            "kubernetes": {"kubeconfig": str(cluster.kubeconfig)},
            "load": {"coverage": {"nodeSettling": "0s"}, "windows": windows},
            "collector": {
                "health": health["collector"],
                "prometheus": {"url": cluster.prometheus_url},
                "profile": {"enabled": False},
                "leaderElection": False,
            },
            "scorer": {"health": health["scorer"], "listen": listen, "policy": {"name": "load_aware"}},
        }
    )


async def stands_on(bus: Bus) -> tuple[float, float]:
    """The time of the newest sample behind the node's score, and the memory (bytes) that it shows."""
    told = await bus.request(SCORE_EXPLAIN, ExplainQuestion(node=NODE), Explanation, timeout=2.0)
    found = next(each for each in told.nodes if each.node == NODE)
    measured = found.windows[0].measured
    if measured is None or measured.mean.memory is None:
        raise LookupError(found.why or told.doubt or "nothing is known yet")
    return measured.sampled_at, measured.mean.memory


async def warmed_up(bus: Bus) -> None:
    why: Exception | None = None
    for _ in range(300):
        try:
            await stands_on(bus)
        except (BusError, LookupError, StopIteration, RuntimeError) as error:
            why = error
            await asyncio.sleep(1.0)
        else:
            return
    raise TimeoutError(f"the scorer does not know {NODE}: {why}")


async def delays(bus: Bus, seconds: float) -> list[float]:
    """For moments 50 ms apart: how long until a sample taken after it was in the scores."""
    clock = SystemClock()
    begun = clock.now()
    known: list[tuple[float, float]] = []  # the newest sample, and when it was first seen behind a score
    while clock.now() - begun < seconds:
        sampled_at, _ = await stands_on(bus)
        if not known or sampled_at > known[-1][0]:
            known.append((sampled_at, clock.now()))
        await asyncio.sleep(ASKING_PERIOD)
    times = [sampled_at for sampled_at, _ in known]
    found = []
    for step in range(int((known[-1][0] - begun) / 0.05)):
        moment = begun + step * 0.05
        found.append(known[bisect_left(times, moment)][1] - moment)
    return found


async def one_change(cluster: Cluster, bus: Bus) -> float:
    """Give a pod of the node 29 GiB more, and wait until the scorer reckons with it: it really goes all the way."""
    _, before = await stands_on(bus)
    clock = SystemClock()
    pods = (await cluster.request("GET", "/api/v1/namespaces/default/pods"))["items"]
    pod = next(pod for pod in pods if pod["spec"].get("nodeName") == NODE)["metadata"]["name"]
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "bench", clock) as kube:
        await kube.annotate(PODS, pod, constant_usage_annotations(500, 30 * 1024), namespace="default")
    begun = clock.now()
    while clock.now() - begun < 120:
        _, now = await stands_on(bus)
        if now > before + GIB / 10:
            return clock.now() - begun
        await asyncio.sleep(ASKING_PERIOD)
    raise TimeoutError("the load that scores stand on did not follow the usage")


async def measure(scrape: float, refresh: float, seconds: float) -> None:
    async with Cluster(nats=True, prometheus=PrometheusConfiguration(scrape_interval=scrape)) as cluster:
        await cluster.add_nodes([node(f"node-{number:02}") for number in range(NODES)])
        await setup_streams(Nats(url=cluster.nats_url), intent_life=60)
        template = pod_template("web", annotations=constant_usage_annotations(500, 1024))
        await cluster.apply([deployment("web", template, replicas=3 * NODES)])
        health = {name: f"127.0.0.1:{cluster.free_port()}" for name in ("collector", "scorer")}
        file = cluster.directory / "equipoise.yaml"
        file.write_text(configuration(cluster, refresh, health, f"127.0.0.1:{cluster.free_port()}"))
        environment = {**os.environ, "EQUIPOISE_CONFIG": str(file)}
        services = [
            cluster.guard.start(
                [sys.executable, "-m", f"equipoise.{name}"], log=cluster.directory / f"{name}.log",
                environment=environment,
            )
            for name in health
        ]  # fmt: skip
        try:
            async with connect(Nats(url=cluster.nats_url), "bench") as bus:
                progress(f"scraped every {scrape:g} s, asked every {refresh:g} s: warming up")
                await warmed_up(bus)
                progress("measuring")
                found = sorted(await delays(bus, seconds))
                progress(f"p50 {found[len(found) // 2]:.2f}, p99 {found[int(len(found) * 0.99)]:.2f}")
                changed = await one_change(cluster, bus)
        finally:
            for pid in services:
                cluster.guard.stop(pid)
    say(
        "freshness", found[len(found) // 2], f"s, p50; scraped every {scrape:g} s, asked every {refresh:g} s",
        p99=round(found[int(len(found) * 0.99)], 2), worst=round(found[-1], 2), one_real_change=round(changed, 2),
    )  # fmt: skip


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=150.0, help="of each measurement")
    arguments.add_argument("--pace", type=float, nargs="*", default=[1.0, 15.0], help="seconds between scrapes")
    asked = arguments.parse_args()
    for pace in ((seconds, seconds) for seconds in asked.pace):
        asyncio.run(measure(*pace, asked.seconds))
