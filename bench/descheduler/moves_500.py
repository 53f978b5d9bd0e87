"""500 moves without a gap: were there ever fewer ready endpoints than replicas?

Single replicas behind budgets with `maxUnavailable: 0`, and workloads of three, on a real API server with the real
controllers. Replacements are ready after 0 to 8 seconds. Two binders run as their own ServiceAccount, with the policies
of k8s/base and k8s/surge. This program has the part of collector and descheduler: no node is hot, and it proposes and
approves any pod. The stock scheduler places the replacements; those that it places on the node of their pod are given
back. With `--evict`, such pods are evicted at once, without budgets.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec
import yaml

from bench.output import progress, report
from equipoise.cli.commands.setup import create_resources
from equipoise.cli.demo.accounts import NAMESPACE as OWN
from equipoise.cli.demo.accounts import account_documents, account_variables
from equipoise.cli.demo.configuration import Difference, Document, compressed_document, equipoise_document
from equipoise.cli.demo.figures import detached_at
from equipoise.cli.demo.surge.run import ACCOUNT_FILES
from equipoise.cli.demo.surge.workloads import service_documents
from equipoise.cli.up.supervisor import Supervisor
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import PREFIX, SERVICES, ServiceName
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import Bus, BusError, Delivery, connect
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.testbed import audit, objects
from equipoise.testbed.api import Api
from equipoise.testbed.binaries.build import build
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.processes.command_lines import PROMETHEUS
from equipoise.testbed.processes.configuration import audit_policy
from equipoise.testbed.ready_endpoints import ready_endpoints

MOVES = 500
NODES = 20
SINGLE, OF_THREE = 150, 50
"""Number of workloads with one replica, and with three."""

AT_ONCE = 16
BINDERS = 2
LIFETIME = 60
"""Seconds for which an intent is valid."""

START_SECONDS = (0, 1, 2, 4, 8)
SHOP = "shop"
BINDER = f"system:serviceaccount:{OWN}:equipoise-binder"
LIMITS = (
    "evictionsPerWorkload", "evictionsPerNamespace", "evictionsPerCluster", "unusualRate", "migratingPerNode",
    "migratingPerWorkload", "unavailablePerWorkload", "lateReplacements", "failingReplacements", "rate",
)  # fmt: skip


def limits() -> Document:
    """None of them: what a move does to its workload is measured, and not how many may be made."""
    unlimited: Document = {name: {"max": "unlimited"} for name in LIMITS}
    unlimited["evictionsPerCluster"]["maxCount"] = "unlimited"
    return unlimited | {"startupGracePeriod": "0s"}


def settings(*, surge: bool) -> Difference:
    """Limits, and whether pods are moved without a gap."""
    document: Document = {
        "binder": {"limits": limits(), "concurrency": 2},
        "protection": {"minReplicas": 2 if surge else 1},
        "surge": {"mode": "always" if surge else "none", "maxMoves": 100, "readyTimeout": "60s"},
    }
    return Difference(settings="", reason="", document=document)


async def publish_loads(bus: Bus, nodes: Sequence[str]) -> None:
    """What a collector would publish, every few seconds: no node is hot."""
    allocatable = Resources(cpu=16, memory=2.0**36)
    sequence = 0
    while True:
        sequence, now = sequence + 1, time.time()  # noqa: TID251  the clock of the binders
        usage = WindowUsage(sampled_at=now, mean=Resources(cpu=2, memory=2.0**32))
        windows = {window.name: usage for window in LoadSettings().windows}
        for node in nodes:
            placement = NodePlacement(
                node=node, uid=node, ready=True, ready_since=0.0, allocatable=allocatable, epoch=1, sequence=sequence
            )
            utilization = NodeUtilization(
                node=node, uid=node, base=allocatable, sampled_at=now, queried_at=now, windows=windows,
                epoch=1, sequence=sequence,
            )  # fmt: skip
            await bus.publish(subjects.node_placement(node), placement)
            await bus.publish(subjects.node_utilization(node), utilization)
        count = len(nodes)
        cycle = UtilizationCycle(
            shard="all", cycle=sequence, expected=count, fresh=count, queried_at=now, epoch=1, sequence=sequence
        )
        await bus.publish(subjects.utilization_cycle("all"), cycle)
        await asyncio.sleep(5.0)


def policy_with_reads() -> Document:
    """The audit policy of the testbed, and all requests of the binders."""
    policy = dict(audit_policy())
    nothing = next(index for index, rule in enumerate(policy["rules"]) if rule["level"] == "None")
    bodies, others = policy["rules"][:nothing], policy["rules"][nothing:]
    return policy | {"rules": [*bodies, {"level": "Metadata", "users": [BINDER]}, *others]}


@dataclass
class Run:
    """One run on one cluster."""

    cluster: Cluster
    api: Api
    bus: Bus
    epoch: LeaseEpoch
    chooser: random.Random
    open: dict[str, EvictionIntent] = field(default_factory=dict)
    """The intents without outcome, by workload."""

    outcomes: dict[str, EvictionOutcome] = field(default_factory=dict)
    """By intent. Two binders may both publish the end of a move: the same outcome, which a stream keeps once."""

    async def on_outcome(self, delivery: Delivery[EvictionOutcome]) -> None:
        outcome = delivery.message
        self.outcomes[outcome.intent_id] = outcome
        self.open = {name: intent for name, intent in self.open.items() if intent.id != outcome.intent_id}

    @property
    def moved(self) -> int:
        return sum(outcome.outcome is Outcome.EVICTED for outcome in self.outcomes.values())

    async def pods(self) -> list[Document]:
        found = await self.api.request("GET", f"/api/v1/namespaces/{SHOP}/pods?resourceVersion=0")
        return list(found["items"])

    async def move(self, number: int, wanted: Mapping[str, int]) -> None:
        """Proposes pods until `number` were moved, and waits for the outcomes of all others."""
        shown = 0
        while self.moved < number or self.open:
            if self.moved < number:
                await self._propose(min(AT_ONCE, number - self.moved) - len(self.open), wanted)
            if self.moved >= shown + 50:
                shown = self.moved
                progress(f"  {self.moved} of {len(self.outcomes)} moved")
            now = time.time()  # noqa: TID251  the clock of the intents
            expired = [name for name, intent in self.open.items() if intent.expires_at + 120 < now]
            if expired:
                raise AssertionError(f"no outcome: {', '.join(expired)}")
            await asyncio.sleep(0.5)

    async def _propose(self, number: int, wanted: Mapping[str, int]) -> None:
        if number <= 0:
            return
        ready: dict[str, list[Document]] = {}
        for pod in await self.pods():
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
            owned = pod["metadata"].get("ownerReferences") and "deletionTimestamp" not in pod["metadata"]
            if owned and conditions.get("Ready") == "True":
                ready.setdefault(pod["metadata"]["labels"]["app"], []).append(pod)
        free = [name for name, count in wanted.items() if name not in self.open and len(ready.get(name, ())) == count]
        self.chooser.shuffle(free)
        intents = [self._intent(name, self.chooser.choice(ready[name])) for name in free[:number]]
        self.open |= {intent.workload.name: intent for intent in intents if intent.workload is not None}
        rules = msgspec.to_builtins(approval_rules(sorted(each.pod_uid for each in self.open.values())))
        await self.api.patch(
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/roles/{APPROVAL_ROLE}", {"rules": rules}
        )
        for intent in intents:
            try:
                await self.bus.publish(
                    subjects.eviction_intent(intent.namespace, intent.pod), intent, message_id=intent.id
                )
            except BusError as error:
                progress(f"  not published: {error}")
                self.open = {name: each for name, each in self.open.items() if each.id != intent.id}

    def _intent(self, name: str, pod: Document) -> EvictionIntent:
        now = time.time()  # noqa: TID251  the clock of the API server
        node = pod["spec"]["nodeName"]
        others = [f"node-{number:02}" for number in range(NODES) if f"node-{number:02}" != node]
        return EvictionIntent(
            id=f"{pod['metadata']['uid']}.{round(now * 1000)}",
            pod_uid=pod["metadata"]["uid"],
            namespace=SHOP,
            pod=pod["metadata"]["name"],
            node=node,
            workload=Workload(kind="Deployment", group="apps", namespace=SHOP, name=name),
            strategy="low_node_load",
            reason="a benchmark",
            sampled_at=now,
            decided_at=now,
            expires_at=now + LIFETIME,
            expected_reduction=Resources(cpu=0.1, memory=2.0**27),
            target=self.chooser.choice(others),
            epoch=self.epoch,
        )

    async def left_over(self) -> int:
        return sum(
            DETACHED_HASH in pod["metadata"].get("annotations", {}) and not pod["metadata"].get("ownerReferences")
            for pod in await self.pods()
        )


def workloads() -> dict[str, int]:
    """The replicas of each workload."""
    return {f"web-{number:03}": 1 if number < SINGLE else 3 for number in range(SINGLE + OF_THREE)}


def documents(wanted: Mapping[str, int], *, budgets: bool) -> list[Document]:
    """Every second workload has a budget that allows no eviction."""
    found: list[Document] = []
    for number, (name, replicas) in enumerate(wanted.items()):
        start = {"pod-ready.stage.kwok.x-k8s.io/delay": f"{START_SECONDS[number % len(START_SECONDS)]}s"}
        usage = objects.constant_usage_annotations(100.0, 128.0)
        template = objects.pod_template(name, annotations=usage | start, spec={"terminationGracePeriodSeconds": 1})
        found.append(objects.deployment(name, template, replicas=replicas, namespace=SHOP))
        if budgets and number % 2 == 0:
            found.append(objects.pod_disruption_budget(name, name, max_unavailable=0, namespace=SHOP))
    return found


async def run(moves: int, seed: int, *, surge: bool) -> bool:
    """Runs and reports; returns whether nothing was missing."""
    wanted = workloads()
    services = {f"{SHOP}/{name}": replicas for name, replicas in wanted.items()}
    policy = Path(tempfile.mkdtemp()) / "audit-policy.yaml"
    policy.write_text(json.dumps(policy_with_reads()))
    replaced = {"kube-apiserver": [f"--audit-policy-file={policy}"]}
    binaries = await asyncio.to_thread(build)
    async with Cluster(binaries=binaries, nats=True, replaced=replaced) as cluster, cluster.api() as api:
        await cluster.add_nodes([objects.node(f"node-{number:02}") for number in range(NODES)])
        await api.apply([objects.namespace(SHOP), objects.namespace(OWN)])
        await api.apply(service_documents(services))
        await api.apply(documents(wanted, budgets=surge))
        await api.apply(account_documents(ACCOUNT_FILES, "this benchmark"))
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": DESCHEDULER_LEASE, "namespace": OWN},
            "spec": {"holderIdentity": "bench", "leaseTransitions": 0},
        }
        (created,) = await api.apply([lease])
        epoch = LeaseEpoch(lease_uid=created["metadata"]["uid"], transitions=0, holder="bench")
        total = sum(wanted.values())
        path = f"/api/v1/namespaces/{SHOP}/pods?resourceVersion=0"
        await api.wait(path, lambda pods: len(_ready(pods["items"])) >= total, timeout=120, what="all pods are ready")
        progress(f"{total} pods of {len(wanted)} workloads run; {moves} are {'moved' if surge else 'evicted'}")
        cluster.end(PROMETHEUS)
        async with (
            connect(Nats(url=cluster.nats_url), "bench") as bus,
            _binders(cluster, surge=surge),
            asyncio.TaskGroup() as tasks,
        ):
            loads = tasks.create_task(publish_loads(bus, [f"node-{number:02}" for number in range(NODES)]))
            begun = time.monotonic()
            this = Run(cluster, api, bus, epoch, random.Random(seed))
            await bus.subscribe(f"{PREFIX}.eviction.outcome.>", EvictionOutcome, this.on_outcome)
            await this.move(moves, wanted)
            await api.wait(path, lambda pods: len(_ready(pods["items"])) == total, timeout=60, what="all replicas run")
            loads.cancel()
            return _report(this, services, time.monotonic() - begun, await this.left_over(), surge=surge)


@asynccontextmanager
async def _binders(cluster: Cluster, *, surge: bool) -> AsyncIterator[None]:
    """The binders, as processes."""
    ports = {name: cluster.free_port() for name in (*SERVICES, "extender")}
    document = equipoise_document(
        kubeconfig=str(cluster.kubeconfig),
        prometheus_url=cluster.prometheus_url,
        nats_url=cluster.nats_url,
        ports=ports,
        neutral=False,
        differences=[settings(surge=surge)],
    )
    configuration = cluster.directory / "equipoise.yaml"
    configuration.write_text(yaml.safe_dump(compressed_document(document, 1)))
    await create_resources(configuration)
    account = await account_variables(cluster, "binder")
    service: ServiceName = "binder"
    async with AsyncExitStack() as running:
        for number in range(BINDERS):
            directory = cluster.directory / f"{service}-{number}"
            directory.mkdir()
            port = cluster.free_port()
            own = {"EQUIPOISE_BINDER__HEALTH": f"127.0.0.1:{port}", **account}
            supervisor = Supervisor(
                configuration=configuration,
                directory=directory,
                health={service: f"http://127.0.0.1:{port}"},
                services=(service,),
                report=progress,
                variables=partial(_variables, own),
            )
            await running.enter_async_context(supervisor)
            await supervisor.ready(service)
        yield


def _variables(own: Mapping[str, str], service: ServiceName) -> Mapping[str, str]:
    return own


def _ready(pods: list[Document]) -> list[Document]:
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any((each["type"], each["status"]) == ("Ready", "True") for each in pod["status"].get("conditions", ()))
    ]


def _report(run: Run, services: Mapping[str, int], seconds: float, left_over: int, *, surge: bool) -> bool:
    log = run.cluster.audit_log
    endpoints = ready_endpoints(audit.written_slices(log), services, time.time())  # noqa: TID251
    evicted = {(each.namespace, each.pod): each.time for each in audit.evictions(log) if each.succeeded}
    detached = detached_at(log)
    times = [at.timestamp() - detached[name] for name, at in evicted.items() if name in detached]
    requests = _requests(log)
    name = "moves_500" if surge else "evictions_of_the_same_pods"
    progress(f"  requests: {dict(requests.most_common())}")
    for detail, number in Counter(
        each.detail for each in run.outcomes.values() if each.outcome != Outcome.EVICTED
    ).most_common(8):
        progress(f"  {number} times: {detail}")
    for shortage in endpoints.shortages[:10] if surge else ():
        progress(f"  {shortage}")
    target = ("<=", 0.0) if surge else None
    report(
        f"{name}: fewer ready endpoints than replicas", endpoints.seconds, "s", target=target,
        moves=len(evicted), without_gap=len(times), shortages=len(endpoints.shortages),
        services=len(endpoints.complete),
    )  # fmt: skip
    report(f"{name}: detached pods left over", left_over, "pods", target=("<=", 0.0))
    report(f"{name}: all moves", seconds, "s")
    if times:
        p99 = quantiles(times, n=100)[98]
        report(
            f"{name}: from detached to evicted, p50",
            median(times),
            "s",
            p99=round(p99, 2),
            longest=round(max(times), 2),
        )
    most = {key: round(number / len(evicted), 1) for key, number in requests.most_common(6)}
    per_move = sum(requests.values()) / len(evicted)
    report(f"{name}: requests to the API server per move", per_move, "requests", most_common=json.dumps(most))
    return not (surge and (endpoints.shortages or left_over or len(times) < len(evicted)))


def _requests(log: Path) -> Counter[str]:
    """The completed requests of the binders."""
    found: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        if BINDER in line:
            event: dict[str, Any] = json.loads(line)
            if event["user"]["username"] == BINDER and event["stage"] == "ResponseComplete":
                target = event.get("objectRef") or {}
                resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
                found[f"{event['verb']} {resource}"] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=MOVES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--evict", action="store_true", help="evict the same pods, instead of moving them without a gap"
    )
    options = parser.parse_args()
    return 0 if asyncio.run(run(options.moves, options.seed, surge=not options.evict)) else 1


if __name__ == "__main__":
    sys.exit(main())
