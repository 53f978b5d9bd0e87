"""Ten empty nodes join forty: a campaign, `kubectl rollout restart` of everything, and the upstream descheduler.

Every participant has a cluster of its own, on which the same pods start on the same nodes, and a load that only moves
change. A new pod takes two seconds to become ready. All figures are those of the API server's audit log and of
Prometheus. Equipoise's durations are compressed as in `equipoise demo --rebalance`; the descheduler runs every five
seconds instead of every five minutes.

With `--results FILE`, results are also appended to the file, and participants that it already contains are not run.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from bench.descheduler.upstream_descheduler import after_new_nodes_policy, build_descheduler, start_descheduler
from bench.output import report
from equipoise.cli.demo import figures
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE, namespace_documents, node_documents, workload_documents
from equipoise.cli.demo.node_loads import trace_cores
from equipoise.cli.demo.options import DemoOptions
from equipoise.cli.demo.rebalance.figures import Event, course, until_half
from equipoise.cli.demo.rebalance.run import Rebalance
from equipoise.cli.demo.run import Demo, started_demo
from equipoise.testbed import audit
from equipoise.testbed.placement import Document, Placement, all_pods, bind, placement
from equipoise.testbed.ready_endpoints import ready_endpoints

INTERVAL = 5.0
"""Seconds between two cycles of the descheduler."""

QUIET = 6
"""Cycles without an eviction after which the descheduler has ended."""

LONGEST = 420.0
"""Seconds after which a participant that has not ended is stopped."""

READY_DELAY = {"pod-ready.stage.kwok.x-k8s.io/delay": "2s"}

POLL = 1.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One participant. Spreads are points of the CPU load of nodes."""

    name: str
    ended: str
    moves: int
    """The pods that left their nodes."""

    returns: int
    """Evictions whose replacement was placed on the evicted node."""

    shortages: int
    gap_seconds: float
    """Seconds with fewer ready endpoints than replicas, summed over the Services."""

    spread_before: float
    spread_after: float
    std_after: float
    moves_until_half: int | None
    seconds: float
    """Until its last pod left."""


Act = Callable[[Demo, Rebalance, Mapping[str, float]], Awaitable[str]]
"""Runs a participant, and returns why it has ended."""


async def campaign(demo: Demo, rebalance: Rebalance, before: Mapping[str, float]) -> str:
    async with demo.equipoise() as supervisor:
        _, ended = await rebalance.run(dict(before), supervisor)
        await rebalance.moves_end()
        return ended.ended


async def restart_everything(demo: Demo, _: Rebalance, __: Mapping[str, float]) -> str:
    """What `kubectl rollout restart` writes, to every Deployment at once."""
    stamp = {"kubectl.kubernetes.io/restartedAt": datetime.now(UTC).isoformat()}  # noqa: TID251  as kubectl does
    patch = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
    deployments = (await demo.api.request("GET", "/apis/apps/v1/deployments"))["items"]
    for each in deployments:
        meta = each["metadata"]
        path = f"/apis/apps/v1/namespaces/{meta['namespace']}/deployments/{meta['name']}"
        await demo.api.request("PATCH", path, patch, content_type="application/strategic-merge-patch+json")

    def complete(response: Any) -> bool:
        return all(map(_rolled_out, response["items"]))

    await demo.api.wait("/apis/apps/v1/deployments", complete, timeout=LONGEST, what="every rollout is complete")
    return "every rollout is complete"


def _rolled_out(deployment: Document) -> bool:
    status, replicas = deployment["status"], deployment["spec"]["replicas"]
    counts = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas"))
    observed = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return observed and all(count == replicas for count in counts)


def descheduler(*, by_usage: bool) -> Act:
    """LowNodeUtilization and RemoveDuplicates. `by_usage`: by Prometheus instead of requests."""

    async def act(demo: Demo, rebalance: Rebalance, _: Mapping[str, float]) -> str:
        program = await asyncio.to_thread(build_descheduler)
        policy = after_new_nodes_policy(
            prometheus_url=demo.cluster.prometheus_url if by_usage else "",
            cores=trace_cores(rebalance.trace),
            window=2 * demo.options.step_seconds,
            excluded_namespaces=["kube-system", EXCLUDED_NAMESPACE],
        )
        await start_descheduler(demo.cluster, program, policy, interval=INTERVAL)
        started = changed = time.monotonic()
        evictions = 0
        while time.monotonic() - changed < QUIET * INTERVAL:
            if time.monotonic() - started > LONGEST:
                return f"stopped after {LONGEST:.0f} s: it evicted on"
            await asyncio.sleep(POLL)
            found = sum(each.succeeded for each in demo.cluster.evictions())
            if found > evictions:
                evictions, changed = found, time.monotonic()
        return f"no eviction in {QUIET} cycles"

    return act


PARTICIPANTS: Mapping[str, Act] = {
    "equipoise rebalance": campaign,
    "kubectl rollout restart of everything": restart_everything,
    "descheduler, by requests": descheduler(by_usage=False),
    "descheduler, by usage": descheduler(by_usage=True),
}


async def place(demo: Demo, start: Placement | None) -> Placement:
    """Creates nodes, pods and Services. `start`: the nodes of the pods; None: the stock scheduler chooses."""
    cluster, api, trace = demo.cluster, demo.api, demo.trace
    assert demo.surge is not None, "the participants are compared by their endpoints"
    if start is not None:
        await asyncio.to_thread(cluster.kill, "kube-scheduler")
    await cluster.add_nodes(node_documents(trace))
    await api.apply(namespace_documents())
    await demo.surge.add_services()
    documents = workload_documents(trace, epoch=demo.epoch, step_seconds=demo.options.step_seconds)
    for document in documents:
        if document["kind"] == "Deployment":
            document["spec"]["template"]["metadata"]["annotations"] |= READY_DELAY
    await api.apply(documents)
    expected = len(trace.pods) + len(trace.nodes)
    if start is not None:
        await bind(api, await all_pods(api, expected), start)
        await asyncio.to_thread(cluster.restart_scheduler, {})
    return placement(await all_pods(api, expected, running=True))


@asynccontextmanager
async def placed_demo(start: Placement | None, nodes: int) -> AsyncIterator[tuple[Demo, Placement]]:
    options = DemoOptions(nodes=nodes, surge=True, rebalance=True)
    async with started_demo(options, Screen(Console(stderr=True))) as demo:
        build = None if demo.metrics_built else demo.build_prometheus()
        placed = await place(demo, start)
        if build is not None:
            await demo.start_prometheus(build)
        yield demo, placed


async def run(name: str, act: Act, start: Placement | None, nodes: int) -> tuple[Result, Placement]:
    async with placed_demo(start, nodes) as (demo, placed):
        rebalance = Rebalance(demo)
        await rebalance.add_nodes()
        before = await demo.measure_before()
        since = time.time()  # noqa: TID251  the API server's clock
        ended = await act(demo, rebalance, before)
        after = await demo.measure_after_moves()
        log = demo.cluster.audit_log
        events: list[Event] = [*audit.bindings(log), *audit.evictions(log), *audit.pod_writes(log)]
        spreads = course(events, since, rebalance.usage(), trace_cores(rebalance.trace))
        assert demo.surge is not None, "see `place`"
        now = time.time()  # noqa: TID251  the API server's clock
        endpoints = ready_endpoints(audit.written_slices(log), demo.surge.wanted, now)
        gaps = [each for each in endpoints.shortages if each.since >= since]
        left = [event.time.timestamp() for event in events if not isinstance(event, audit.Binding)]
        result = Result(
            name=name, ended=ended, moves=len(spreads) - 1,
            returns=figures.read_audit_log(log).same_node_returns(), shortages=len(gaps),
            gap_seconds=round(sum(each.seconds for each in gaps), 1),
            spread_before=round(figures.spread(before), 1), spread_after=round(figures.spread(after), 1),
            std_after=round(figures.deviation(after), 2), moves_until_half=until_half(spreads),
            seconds=round(max((at for at in left if at >= since), default=since) - since, 1),
        )  # fmt: skip
    return result, placed


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=40, help="nodes with pods; ten more join")
    parser.add_argument("--only", default="", help="the participants whose names contain this text")
    parser.add_argument("--results", type=Path, help="file to which results are appended; its participants are not run")
    options = parser.parse_args()
    start, known = _read(options.results)
    for name, act in PARTICIPANTS.items():
        if options.only in name and name not in known:
            result, placed = await run(name, act, start, options.nodes)
            if start is None:
                start = placed
                _append(options.results, {"start": start})
            known[name] = result
            _append(options.results, result)
            print(msgspec.json.encode(result).decode(), flush=True)
    ours = known.get("equipoise rebalance")
    if ours is None:
        return
    for name, result in known.items():
        if result is not ours and result.moves:
            report("rebalance/moves", ours.moves, "pods", target=("<=", 1.0), baseline=result.moves, against=name)
    report("rebalance/gaps", ours.gap_seconds, "s", target=("<=", 0.0))


def _read(file: Path | None) -> tuple[Placement | None, dict[str, Result]]:
    """The initial placement and the results so far."""
    start, known = None, dict[str, Result]()
    for line in file.read_text().splitlines() if file is not None and file.exists() else ():
        if line.startswith('{"start"'):
            start = msgspec.json.decode(line, type=dict[str, Placement])["start"]
        else:
            result = msgspec.json.decode(line, type=Result)
            known[result.name] = result
    return start, known


def _append(file: Path | None, value: Any) -> None:
    if file is not None:
        with file.open("a") as lines:
            lines.write(msgspec.json.encode(value).decode() + "\n")


if __name__ == "__main__":
    asyncio.run(main())
