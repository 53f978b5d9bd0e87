"""Checks an intent with live reads, cheapest first, before the ledger decides."""

import asyncio
from dataclasses import dataclass

import msgspec
import structlog

from equipoise.binder.decisions.destination_check import (
    Obstacle,
    destination_search,
    refused_by_filters,
    refused_by_platform,
    source_refusal,
)
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish, Proceed, Retry, retry_while_fresh
from equipoise.binder.decisions.staleness import check_age, check_epoch, check_readiness
from equipoise.binder.decisions.surge.plan import SurgePlan, plan_of
from equipoise.binder.shell.destination_searches import DestinationSearches
from equipoise.binder.shell.live_reads import Unreadable, read_candidate, read_volumes
from equipoise.binder.shell.surge_reads import read_surge_candidate
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.binder.state.ledger import Ledger
from equipoise.contracts.configuration.moves import gap_refusal, strategy_refusal
from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.protection import protection, rules_failed
from equipoise.contracts.eviction.surge import may_surge, surge_decision
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.load.node_coverage import coverage_problem
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.unreadable.known_amounts import with_known_amounts
from equipoise.runtime.configuration import Shared
from equipoise.runtime.kubernetes.client import LEASES, PODS, Kube, KubeError, UnreadableObject, find
from equipoise.runtime.kubernetes.installation import InstallationCheck
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import Clock
from equipoise.scheduling.model.pod_info import PodInfo

log = structlog.get_logger()


class ValidIntent(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that only the ledger and the API server can still refuse."""

    eviction: ProposedEviction
    lease: Lease | None
    surge: SurgePlan | None = None
    """How the pod is moved without a gap; None if it is evicted at once."""

    read_at: float
    """The time at which the first read that this is based on began, on the monotonic clock."""


@dataclass
class Validation:
    kube: Kube
    clock: Clock
    cluster: ClusterState
    installation: InstallationCheck
    shared: Shared
    max_intent_lifetime: float
    """Seconds."""

    def __post_init__(self) -> None:
        shared = self.shared
        self._load = shared.load
        self._searches = DestinationSearches()
        self._rules = shared.rules

    async def validate(
        self, intent: EvictionIntent, ledger: Ledger, read_at: float
    ) -> Proceed[ValidIntent] | Finish | Retry:
        """Checks the installation, then the age, measurements, epoch, pod, protection and fit of the intent.

        The intent is tried again while the bus has not yet delivered what decides about it. Raises KubeError when the
        API server does not respond now. `read_at`: when the read of the ledger began, on the monotonic clock.
        """
        try:
            return await self._validate(intent, ledger, read_at)
        except UnreadableObject as error:  # a pod is protected while it is unknown whether it is
            return Finish(outcome=Outcome.REJECTED_POLICY, detail=str(error))

    async def _validate(
        self, intent: EvictionIntent, ledger: Ledger, read_at: float
    ) -> Proceed[ValidIntent] | Finish | Retry:
        why = await self.installation.current_problem()
        if why:
            return Finish(outcome=Outcome.PAUSED, detail=why)
        if why := strategy_refusal(self._rules.level, intent.strategy):
            return Finish(outcome=Outcome.REJECTED_POLICY, detail=why)
        refusal = self._check_measurements(intent)
        if refusal is not None:
            return refusal
        lease, pod = await asyncio.gather(
            find(self.kube, LEASES, DESCHEDULER_LEASE, self._rules.own_namespace),
            find(self.kube, PODS, intent.pod, intent.namespace),
        )
        refusal = self.recheck(intent, lease, ledger) or _check_pod(intent, pod)
        if refusal is not None:
            return refusal
        assert pod is not None
        pod = with_known_amounts(pod)
        candidate = self._with_pod_counts(await read_candidate(self.kube, pod))
        plan: SurgePlan | None = None
        try:
            why = protection(candidate, self._rules, self.clock.now())
            if may_surge(candidate, why, self._rules, self.clock.now()):
                why, plan = await self._plan_surge(candidate, why)
            why = why or ("" if plan is not None else gap_refusal(self._rules.level))
        except KubeError:
            raise
        except Exception as error:  # whatever it is, it concerns this pod only
            log.warning("unexpected error", pod=intent.pod_name, exc_info=True)
            why = rules_failed(error)
        if why:
            return Finish(outcome=Outcome.REJECTED_POLICY, detail=why)
        obstacle = await self._check_fit(intent, pod, candidate.workload)
        if obstacle is not None and obstacle.unknown:
            return self._until_known(intent, obstacle.why)
        if obstacle is not None:
            return Finish(outcome=Outcome.REJECTED_FIT, detail=obstacle.why)
        eviction = ProposedEviction(
            namespace=intent.namespace,
            node=intent.node,
            workload=candidate.workload,
            replicas=candidate.replicas,
            unready=candidate.unready,
            cluster_pods=self.cluster.pod_count,
        )
        return Proceed(ValidIntent(eviction=eviction, lease=lease, surge=plan, read_at=read_at))

    async def _plan_surge(self, candidate: Candidate, protected: str) -> tuple[str, SurgePlan | None]:
        """Why the pod must not be evicted, and the plan by which it is moved without a gap. Raises KubeError.

        `protected`: why it is protected, also for few replicas, of which a move without a gap takes none away.
        """
        surge = await read_surge_candidate(self.kube, candidate)
        why, without_gap = surge_decision(surge, protected, self._rules)
        return why, plan_of(surge) if without_gap else None

    def recheck(self, intent: EvictionIntent, lease: Lease | None, ledger: Ledger) -> Finish | Retry | None:
        """Checks what time, the collector and another leader may have changed, without any read."""
        if self.kube.server_time_bounds(intent.decided_at)[0] < ledger.created_at:
            return Finish(outcome=Outcome.REJECTED_STALE, detail="decided before the ledger was created")
        return self._check_measurements(intent) or check_epoch(intent, lease, ledger.epoch)

    def remaining_freshness(self, intent: EvictionIntent) -> float:
        """Seconds for which the intent's oldest sample remains fresh enough; 0 or less if it is too old."""
        return intent.sampled_at + self._load.freshness.eviction - self._latest_time()

    def _latest_time(self) -> float:
        """The later of two clocks: with a slow clock an expired intent would be valid, and an old sample fresh."""
        now = self.clock.now()
        return max(now, self.kube.server_time_bounds(now)[0])

    def _check_measurements(self, intent: EvictionIntent) -> Finish | Retry | None:
        now, cluster = self._latest_time(), self.cluster
        refusal = check_age(intent, self._load, self.max_intent_lifetime, now)
        if refusal is not None:
            return refusal
        cycles, loads = cluster.cycles.current(now), cluster.known_loads(now)
        if why := coverage_problem(cycles, known=loads, load=self._load, use="eviction", now=now):
            return self._until_known(intent, why)
        return check_readiness(*cluster.ready, self._load)

    def _until_known(self, intent: EvictionIntent, why: str) -> Finish | Retry:
        """A service or a bus that has just started knows more a moment later: this is a delay, and no reason against
        the eviction."""
        return retry_while_fresh(
            intent,
            why,
            Outcome.REJECTED_STALE,
            now=self._latest_time(),
            sample_lifetime=self._load.freshness.eviction,
        )

    def _with_pod_counts(self, candidate: Candidate) -> Candidate:
        """The candidate with the number of its workload's pods, now and before, as the bus reports it."""
        workload, now = candidate.workload, self.clock.now()
        if workload is None:
            return candidate
        return msgspec.structs.replace(
            candidate,
            pods_now=self.cluster.pods_of(workload),
            pods_before=self.cluster.pods_before(workload, now, self._rules.protection.replicas_settling_period),
        )

    async def _check_fit(self, intent: EvictionIntent, pod: Pod, workload: Workload | None) -> Obstacle | None:
        source = self.cluster.placements.get(intent.node)
        now = self.clock.now()
        if source is None:
            removed = self.cluster.was_removed(intent.node, now)
            return Obstacle(why=f"node {intent.node} is unknown", unknown=not removed)
        if why := source_refusal(source, self._load, now):
            return Obstacle(why=f"node {intent.node}: {why}")
        platforms = self.cluster.ready_platforms(workload, intent.node)
        try:
            info = PodInfo(pod)
            refusals = (
                refused_by_platform(info, platforms),
                refused_by_filters(info, self.cluster.snapshot, await read_volumes(self.kube, pod)),
            )
        except (Unreadable, ValueError) as error:
            return Obstacle(why=str(error))
        search = destination_search(
            intent.node,
            intent.target,
            intent.expected_reduction,
            self.cluster.nodes,
            refusals,
            target_removed=self.cluster.was_removed(intent.target, now),
            usage_of=pod_usage(self.cluster.workloads, load=self._load, now=now),
            load=self._load,
            thresholds=self.shared.thresholds,
            now=now,
            skew=self.cluster.cycles.skew(now),
        )
        return await self._searches.run(search)


def _check_pod(intent: EvictionIntent, pod: Pod | None) -> Finish | None:
    if pod is None:
        return Finish(outcome=Outcome.ALREADY_GONE, detail="the pod is gone")
    if pod.metadata.uid != intent.pod_uid:
        return Finish(outcome=Outcome.UID_CHANGED, detail="another pod has its name")
    if pod.spec.node_name != intent.node:
        return Finish(outcome=Outcome.REJECTED_STALE, detail=f"it runs on {pod.spec.node_name or 'no node'}")
    return None
