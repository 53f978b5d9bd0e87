"""How long plans and evaluations take in a fleet of which a tenth is hot, what holds the event loop, what it weighs.

Everything is measured three times and the best is told: wall clock, and beside it `cpu`, the processor's seconds of all
threads. Where other programs use the machine the second is what can be compared.
"""

import argparse
import asyncio
import gc
import logging
import random
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from bench.line import progress, say
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.fit import fit_pod
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.descheduler.decisions.evaluation.cluster_builder import ClusterBuilder
from equipoise.descheduler.decisions.evaluation.pipeline import classify
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot, WatchedObjects
from equipoise.descheduler.decisions.strategies import AnyStrategy, Strategy, name_of
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.service import Descheduler
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.bus import Delivery, NoResponders
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICA_SETS
from equipoise.runtime.kubernetes.interning import Interner
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import reduce_gc_frequency
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.kube import MemoryKube

GIB = 2.0**30
NOW = 1_800_000_000.0
LONG_AGO = datetime.fromtimestamp(NOW - 200_000, UTC)
LOAD = LoadSettings()
NAMESPACE = "shop"

PODS_PER_NODE = 30
REPLICAS = 20
CORES, MEMORY = 32, 128
"""Of a node; GiB."""

SYSTEM = Resources(cpu=0.5, memory=2 * GIB)
HOT_CPU, USUAL_CPU = (0.75, 1.0), (0.35, 0.55)
"""Cores of a pod, on average over the day: a hot node comes to 82 %, another to 43 %."""

ROOMY, FULL = (1.5, 5.5), (2.9, 5.3)
"""GiB that a pod asks for: of the memory 82 % are asked for, or 96 %, where many a pod fits nowhere."""

ROUNDS = 3
HEARTBEAT = 0.005
"""Seconds between two looks at how late the event loop is."""

QUIET = 3_600.0
SYNC_TIMEOUT = 600.0
INTENTS = subjects.eviction_intent("*", "*")

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server has, and what the collector says."""

    nodes: list[objects.Node]
    pods: list[objects.Pod]
    deployments: list[objects.WorkloadObject]
    replica_sets: list[objects.WorkloadObject]
    utilization: list[NodeUtilization]
    workloads: list[WorkloadUtilization]

    @property
    def cycle(self) -> UtilizationCycle:
        count = len(self.nodes)
        return UtilizationCycle(shard="all", cycle=1, expected=count, fresh=count, queried_at=NOW, sequence=1)


def as_received(value: S) -> S:
    """Each with texts of its own, as out of an answer."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


def an_id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def a_node(name: str, uid: str) -> objects.Node:
    metadata = objects.ObjectMeta(
        name=name, uid=uid, creation_timestamp=LONG_AGO, labels={"kubernetes.io/hostname": name}
    )
    ready = objects.Condition(type="Ready", status="True", last_transition_time=LONG_AGO)
    allocatable = {"cpu": str(CORES), "memory": f"{MEMORY}Gi", "pods": "110"}
    return objects.Node(metadata=metadata, status=objects.NodeStatus(allocatable=allocatable, conditions=[ready]))


def a_placement(node: objects.Node) -> NodePlacement:
    """Its pods started long ago."""
    return NodePlacement(node=node.metadata.name, uid=node.metadata.uid, epoch=1, sequence=1)


def a_pod(node: str, app: str, memory: float, chance: random.Random) -> objects.Pod:
    """Of a Deployment that is spread over nodes; `memory`: GiB that it asks for."""
    requests = {"cpu": "500m", "memory": f"{round(memory * 1024)}Mi"}
    spread = objects.TopologySpreadConstraint(
        topology_key="kubernetes.io/hostname",
        label_selector=objects.LabelSelector(match_labels={"app": app}),
        max_skew=5,
    )
    conditions = [
        objects.Condition(type=type_, status="True", last_transition_time=LONG_AGO)
        for type_ in ("PodScheduled", "Ready")
    ]
    owner = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"{app}-1", controller=True)
    uid = an_id(chance)
    return objects.Pod(
        metadata=objects.ObjectMeta(
            name=f"{app}-1-{uid[:8]}", namespace=NAMESPACE, uid=uid, resource_version="1", labels={"app": app},
            owner_references=[owner], creation_timestamp=LONG_AGO,
        ),
        spec=objects.PodSpec(
            node_name=node,
            containers=[objects.Container(resources=objects.ResourceRequirements(requests=requests))],
            topology_spread_constraints=[spread],
        ),
        status=objects.PodStatus(phase="Running", conditions=conditions, start_time=LONG_AGO, qos_class="Burstable"),
    )  # fmt: skip


def a_workload(name: str, owner: str = "") -> objects.WorkloadObject:
    controller = objects.OwnerReference(api_version="apps/v1", kind="Deployment", name=owner, controller=True)
    counts = objects.WorkloadStatus(
        replicas=REPLICAS, ready_replicas=REPLICAS, updated_replicas=REPLICAS, available_replicas=REPLICAS
    )
    metadata = objects.ObjectMeta(
        name=name, namespace=NAMESPACE, creation_timestamp=LONG_AGO, owner_references=[controller] if owner else []
    )
    return objects.WorkloadObject(metadata=metadata, spec=objects.WorkloadSpec(replicas=REPLICAS), status=counts)


class App(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica uses, hour by hour, and asks for."""

    name: str
    cpu: list[float]
    memory: float
    """GiB used, all day."""

    asked: float
    """GiB."""


def an_app(name: str, cores: tuple[float, float], shape: int, asked: tuple[float, float], chance: random.Random) -> App:
    """`shape`: 1 works by day, −1 by night."""
    mean = chance.uniform(*cores)
    cpu = [
        mean * (1.0 + (0.3 if 8 <= hour < 20 else -0.3) * shape) * chance.uniform(0.98, 1.02) for hour in range(SLOTS)
    ]
    return App(name=name, cpu=cpu, memory=2.0, asked=chance.uniform(*asked))


def some_apps(count: int, cores: tuple[float, float], asked: tuple[float, float], chance: random.Random) -> list[App]:
    begun = "heavy" if cores == HOT_CPU else "app"
    return [an_app(f"{begun}-{number}", cores, 1 - 2 * (number % 2), asked, chance) for number in range(count)]


def placed(apps: Sequence[App], nodes: int, chance: random.Random, *, mixed: bool) -> list[list[App]]:
    """The apps of each node, every app `REPLICAS` times in all.

    `mixed`: as many that work by day as by night on every node.
    """
    shapes = [list(apps[::2]), list(apps[1::2])] if mixed else [list(apps)]
    share = PODS_PER_NODE // len(shapes)
    held: list[list[App]] = [[] for _ in range(nodes)]
    for shape in shapes:
        replicas = (shape * (nodes * share // len(shape) + 1))[: nodes * share]
        chance.shuffle(replicas)
        for place, apps_here in enumerate(held):
            apps_here.extend(replicas[place * share : (place + 1) * share])
    return held


def a_cluster(nodes: int, hot: int, asked: tuple[float, float], chance: random.Random) -> Cluster:
    """The pods of the hot nodes are heavier ones, and their days do not mix so well."""
    heavy = some_apps(max(2, hot * PODS_PER_NODE // REPLICAS), HOT_CPU, asked, chance)
    usual = some_apps(max(2, (nodes - hot) * PODS_PER_NODE // REPLICAS), USUAL_CPU, asked, chance)
    held = placed(heavy, hot, chance, mixed=False) + placed(usual, nodes - hot, chance, mixed=True)
    chance.shuffle(held)
    sharing = Interner()
    cluster = Cluster(nodes=[], pods=[], deployments=[], replica_sets=[], utilization=[], workloads=[])
    for number, apps in enumerate(held):
        node = a_node(f"node-{number:05}", an_id(chance))
        pods: list[objects.Pod] = []
        free = float(MEMORY)
        for app in apps:
            # The last ones of a node that is full ask for what is left.
            memory = min(app.asked, free / (len(apps) - len(pods)) * 1.5)
            free -= memory
            pods.append(sharing.intern(as_received(a_pod(node.metadata.name, app.name, memory, chance))))
        cluster.nodes.append(sharing.intern(as_received(node)))
        cluster.pods.extend(pods)
        cluster.utilization.append(as_received(measured(node, pods, apps)))
    for app in (*heavy, *usual):
        cluster.deployments.append(as_received(a_workload(app.name)))
        cluster.replica_sets.append(as_received(a_workload(f"{app.name}-1", app.name)))
        cluster.workloads.append(as_received(foretold(app)))
    return cluster


def measured(node: objects.Node, pods: Sequence[objects.Pod], apps: Sequence[App]) -> NodeUtilization:
    """Now as in the profile's present hour; over every window the same."""
    hour = datetime.fromtimestamp(NOW, UTC).hour
    usages = {
        pod.metadata.uid: Resources(cpu=app.cpu[hour], memory=app.memory * GIB)
        for pod, app in zip(pods, apps, strict=True)
    }
    mean = Resources(
        cpu=(SYSTEM.cpu or 0.0) + sum(usage.cpu or 0.0 for usage in usages.values()),
        memory=(SYSTEM.memory or 0.0) + sum(usage.memory or 0.0 for usage in usages.values()),
    )
    value = WindowUsage(sampled_at=NOW, mean=mean)
    return NodeUtilization(
        node=node.metadata.name, uid=node.metadata.uid, base=Resources(cpu=CORES, memory=MEMORY * GIB),
        sampled_at=NOW, queried_at=NOW, windows={window.name: value for window in LOAD.windows}, system=SYSTEM,
        epoch=1, sequence=1, pods=usages,
    )  # fmt: skip


def foretold(app: App) -> WorkloadUtilization:
    mean = Resources(cpu=sum(app.cpu) / SLOTS, memory=app.memory * GIB)
    return WorkloadUtilization(
        workload=Workload(kind="Deployment", group="apps", namespace=NAMESPACE, name=app.name),
        replicas=REPLICAS, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
        windows={window.name: WindowUsage(sampled_at=NOW, mean=mean) for window in LOAD.windows},
        profile={"cpu": list(app.cpu), "memory": [app.memory * GIB] * SLOTS},
    )  # fmt: skip


# The decisions by themselves


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    wall: float
    cpu: float


def timed(act: Callable[[], T]) -> tuple[Took, T]:
    wall, cpu = time.monotonic(), time.process_time()
    result = act()
    return Took(wall=time.monotonic() - wall, cpu=time.process_time() - cpu), result


def best(rounds: Sequence[Took]) -> Took:
    return Took(wall=min(each.wall for each in rounds), cpu=min(each.cpu for each in rounds))


def a_snapshot(cluster: Cluster) -> Snapshot:
    owners = [
        (Workload(kind=kind, group="apps", namespace=NAMESPACE, name=value.metadata.name), value)
        for kind, values in (("Deployment", cluster.deployments), ("ReplicaSet", cluster.replica_sets))
        for value in values
    ]
    watched = WatchedObjects(
        nodes=cluster.nodes,
        pods=cluster.pods,
        namespaces={NAMESPACE: a_namespace()},
        workloads=dict(owners),
        fits={pod.metadata.uid: fit_pod(pod) for pod in cluster.pods},
    )
    return Snapshot(
        now=NOW + 1.0,
        watched=watched,
        nodes={heard.node: heard for heard in cluster.utilization},
        workloads={heard.workload: heard for heard in cluster.workloads},
        cycles=[cluster.cycle],
        placements={node.metadata.name: a_placement(node) for node in cluster.nodes},
    )


def a_namespace() -> objects.Namespace:
    return objects.Namespace(metadata=objects.ObjectMeta(name=NAMESPACE))


def decide(cluster: Cluster, strategies: Sequence[Strategy], case: str) -> None:
    """The picture, and each strategy's verdicts and plan on a picture of its own: pods are judged when asked for."""
    settings = DeschedulerSettings()
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    evaluation = settings.evaluation(LOAD, Thresholds(), rules)
    snapshot = a_snapshot(cluster)
    pictures: list[Took] = []
    for strategy in strategies:
        name, verdicts, plans, both = name_of(strategy), [], [], []
        for _ in range(ROUNDS):
            took, fleet = timed(lambda: ClusterBuilder(snapshot, evaluation).cluster())
            pictures.append(took)
            seen, found = timed(partial(classify, strategy, fleet))
            hot = {each.node for each in found if each.abnormal}
            planned, plan = timed(partial(strategy.plan, fleet, hot))
            verdicts.append(seen)
            plans.append(planned)
            both.append(Took(wall=seen.wall + planned.wall, cpu=seen.cpu + planned.cpu))
            del fleet
        figures = {"verdicts": best(verdicts), "plan": best(plans), "verdicts_and_plan": best(both)}
        for what, figure in figures.items():
            say(
                f"{name}_{what}", figure.wall, f"s, {len(cluster.nodes)} nodes, {case}", cpu=round(figure.cpu, 3),
                hot=len(hot), moves=len(plan.moves), later=len(plan.later), why=plan.why,
            )  # fmt: skip
    took = best(pictures)
    say("picture", took.wall, f"s, {len(cluster.nodes)} nodes", cpu=round(took.cpu, 3))
    # Everything that the service keeps, and two pictures and a plan of it, once: nothing else is in this process.
    say("memory", peak_mb(), "MB at most", target=("<=", 900.0))


# The service


class BenchClock:
    """Stands at one moment for those who read it. Waits that are long end when the benchmark says so."""

    def __init__(self) -> None:
        self._passed = asyncio.Event()

    def now(self) -> float:
        return NOW + 1.0

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        if seconds >= QUIET / 2:
            await self._passed.wait()
        else:
            await asyncio.sleep(seconds)

    def let_pass(self) -> None:
        self._passed.set()
        self._passed = asyncio.Event()


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """Between two beats of the heart, less its pause: seconds by the wall, and of the processor for all threads."""

    wall: float
    cpu: float


class Heart:
    """Beats in the event loop: what comes late was held. Full rounds of the garbage collector hold it, too."""

    def __init__(self) -> None:
        self.late: list[Late] = []
        self.collected: list[float] = []
        """Seconds of each round of the garbage collector, of the thread it ran in."""

        self._begun = 0.0
        gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._begun = time.thread_time()
        else:
            self.collected.append(time.thread_time() - self._begun)

    def forget(self) -> None:
        self.late.clear()
        self.collected.clear()

    async def beat(self) -> None:
        """For ever."""
        while True:
            wall, cpu = time.monotonic(), time.process_time()
            await asyncio.sleep(HEARTBEAT)
            late = time.monotonic() - wall - HEARTBEAT
            self.late.append(Late(wall=late, cpu=time.process_time() - cpu))

    def say(self, name: str) -> None:
        """A beat that came late while this process had little of the processor was held up by others."""
        worst = max(self.late, key=lambda late: late.wall)
        own = max(min(late.wall, late.cpu) for late in self.late)
        say(
            f"{name}_held_the_loop", 1_000 * worst.wall, "ms at most", target=("<=", 100.0),
            cpu=round(1_000 * own, 1), beats=len(self.late), above_100_ms=sum(late.wall > 0.1 for late in self.late),
            cpu_above_100_ms=sum(min(late.wall, late.cpu) > 0.1 for late in self.late),
            garbage_collector=round(1_000 * max(self.collected, default=0.0), 1),
        )  # fmt: skip


def filled_kube(cluster: Cluster, clock: BenchClock) -> MemoryKube:
    kube = MemoryKube(clock)
    kube.put(NAMESPACES, a_namespace())
    for node in cluster.nodes:
        kube.put(NODES, node)
    for pod in cluster.pods:
        kube.put(PODS, pod)
    for deployment in cluster.deployments:
        kube.put(DEPLOYMENTS, deployment)
    for replica_set in cluster.replica_sets:
        kube.put(REPLICA_SETS, replica_set)
    kube.expire()
    return kube


async def fill(bus: MemoryBus, cluster: Cluster) -> None:
    for heard in cluster.utilization:
        await bus.publish(subjects.node_utilization(heard.node), heard)
    for node in cluster.nodes:
        await bus.publish(subjects.node_placement(node.metadata.name), a_placement(node))
    for workload in cluster.workloads:
        await bus.publish(subjects.workload_utilization(workload.workload), workload)
    await bus.publish(subjects.utilization_cycle("all"), cluster.cycle)


@asynccontextmanager
async def a_descheduler(
    kube: MemoryKube, bus: MemoryBus, clock: BenchClock, strategies: tuple[AnyStrategy, ...]
) -> AsyncIterator[CollectorRegistry]:
    """One that leads. A node is abnormal from its first evaluation on."""
    metrics = CollectorRegistry()
    own = DeschedulerSettings(
        interval=Duration(QUIET), warm_up=Duration(QUIET), consecutive_abnormalities=1, strategies=strategies
    )
    runtime = Runtime(
        configuration=Configuration(shared=Shared(load=LOAD), own=own, hash=""),
        bus=bus, clock=clock, identity="bench", api_server=kube,
        health=Health(configuration_hash="", metrics=CollectorRegistry()), metrics=metrics,
    )  # fmt: skip
    descheduler = Descheduler(runtime)
    await descheduler.attach()
    running = asyncio.create_task(descheduler.run())
    try:
        await leading(bus, running)
        yield metrics
    finally:
        running.cancel()
        await asyncio.wait([running])


async def leading(bus: MemoryBus, running: asyncio.Task[None]) -> None:
    """Returns once it answers; raises what ended it."""
    async with asyncio.timeout(SYNC_TIMEOUT):
        while True:
            if running.done():
                running.result()
            try:
                await ask(bus)
            except NoResponders:
                await asyncio.sleep(0.2)
            else:
                return


async def ask(bus: MemoryBus) -> PlanResponse:
    return await bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=SYNC_TIMEOUT)


async def keep_alive(kube: MemoryKube) -> None:
    """The watches of a real server carry bookmarks; a silent one would be taken for dead."""
    while True:
        await asyncio.sleep(10.0)
        kube.bookmark()


async def serve(nodes: int, hot: int) -> None:
    """The real service on an API server and a bus in memory."""
    clock = BenchClock()
    bus = MemoryBus(clock)
    cluster = a_cluster(nodes, hot, ROOMY, random.Random(1))
    kube = filled_kube(cluster, clock)
    await fill(bus, cluster)
    del cluster
    gc.collect()
    before = resident_mb()
    beside = [asyncio.create_task(keep_alive(kube))]
    heart = Heart()
    beside.append(asyncio.create_task(heart.beat()))
    both: tuple[AnyStrategy, ...] = (LowNodeLoad(), LevelDay())
    for strategies in (both, (LevelDay(),)):
        gc.collect()  # as a program does between two lives
        names = "_and_".join(name_of(strategy) for strategy in strategies)
        progress(f"a descheduler with {names}")
        async with a_descheduler(kube, bus, clock, strategies):
            heart.forget()
            took, shown = await rounds(partial(ask, bus))
            why = "; ".join(shown[-1].why.values())
            say(
                f"plan_{names}",
                took.wall,
                f"s from question to answer, {nodes} nodes",
                cpu=round(took.cpu, 3),
                moves=len(shown[-1].moves),
                why=why,
            )
            took, decisions = await rounds(partial(evaluated, bus, clock, len(strategies)))
            moves = ", ".join(str(each) for each in decisions)
            say(f"evaluation_{names}", took.wall, f"s, {nodes} nodes", cpu=round(took.cpu, 3), intents=moves)
            heart.say(f"plans_and_evaluations_{names}")
        if strategies == both:
            say("service_memory", peak_mb(), "MB at most, with the API server and the bus in the same process",
                more_than_they=round(peak_mb() - before))  # fmt: skip
    for task in beside:
        task.cancel()


async def rounds(act: Callable[[], Awaitable[T]]) -> tuple[Took, list[T]]:
    taken, results = [], []
    for _ in range(ROUNDS):
        wall, cpu = time.monotonic(), time.process_time()
        results.append(await act())
        taken.append(Took(wall=time.monotonic() - wall, cpu=time.process_time() - cpu))
    return best(taken), results


async def evaluated(bus: MemoryBus, clock: BenchClock, strategies: int) -> int:
    """One evaluation, until the last strategy has told its decision; how many intents came of it.

    They are answered as in a dry run, so that the next one has moves to assume.
    """
    before = len(bus.published(EvictionIntent, INTENTS))
    waiting = asyncio.Semaphore(0)

    async def on_decision(_: Delivery[DescheduleDecision]) -> None:
        waiting.release()

    await bus.subscribe(subjects.decision("descheduler", "*"), DescheduleDecision, on_decision)
    clock.let_pass()
    for _ in range(strategies):
        await waiting.acquire()
    new = bus.published(EvictionIntent, INTENTS)[before:]
    for intent in new:
        await bus.publish(subjects.eviction_outcome(intent.namespace, intent.pod), dry_run(intent))
    return len(new)


def dry_run(intent: EvictionIntent) -> EvictionOutcome:
    return EvictionOutcome(
        intent_id=intent.id, outcome=Outcome.DRY_RUN, settled_at=NOW + 1.0, pod_uid=intent.pod_uid,
        namespace=intent.namespace, pod=intent.pod, node=intent.node, workload=intent.workload, target=intent.target,
        reason=intent.reason, expected_reduction=intent.expected_reduction, decided_at=intent.decided_at,
    )  # fmt: skip


def resident_mb() -> float:
    return _status("VmRSS")


def peak_mb() -> float:
    return _status("VmHWM")


def _status(field: str) -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--hot", type=int, default=500)
    arguments.add_argument("--part", choices=("decisions", "full", "service"))
    given = arguments.parse_args()
    if given.part is None:
        code = 0
        for part in ("decisions", "full", "service"):
            progress(f"part: {part}")
            command = [sys.executable, "-m", "bench.plan_5000", *sys.argv[1:], "--part", part]
            code = max(code, subprocess.run(command, check=False).returncode)  # noqa: S603  ourselves
        return code
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    reduce_gc_frequency()
    if given.part == "service":
        asyncio.run(serve(given.nodes, given.hot))
    elif given.part == "full":
        decide(a_cluster(given.nodes, given.hot, FULL, random.Random(1)), [LevelDay()], "memory asked for to 96 %")
    else:
        cluster = a_cluster(given.nodes, given.hot, ROOMY, random.Random(1))
        decide(cluster, [LowNodeLoad(), LevelDay()], "memory asked for to 82 %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
