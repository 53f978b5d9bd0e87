"""Everything that can speak against an intent before the ledger is asked, read live and cheapest first."""

import asyncio

import msgspec

from equipoise.binder.decisions.destination_check import no_target, unsettled
from equipoise.binder.decisions.fleet_state import Picture
from equipoise.binder.decisions.limits import Move
from equipoise.binder.decisions.staleness import (
    Verdict,
    doubt_of_coverage,
    doubt_of_epoch,
    doubt_of_readiness,
    doubt_of_time,
)
from equipoise.binder.shell.live_reads import Unreadable, read_candidate, read_pod, read_volume_nodes
from equipoise.binder.state.ledger import Ledger
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.eviction.protection import Candidate, Rules, protection
from equipoise.contracts.fit import fit_pod
from equipoise.contracts.kubernetes.objects import Lease, Pod
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.kubernetes.client import LEASES, Kube, NotFound
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import Clock


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """An intent that only the ledger can still refuse."""

    move: Move
    lease: Lease | None


class Examination:
    def __init__(
        self, *, kube: Kube, clock: Clock, picture: Picture, rules: Rules, load: LoadSettings, thresholds: Thresholds
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._picture = picture
        self._rules = rules
        self._load = load
        self._thresholds = thresholds

    async def examine(self, intent: EvictionIntent, ledger: Ledger) -> Passed | Verdict:
        """Raises KubeError when the API server has no answer now."""
        doubt = self._doubt_of_measurements(intent)
        if doubt is not None:
            return doubt
        lease, pod = await asyncio.gather(self._lease(), read_pod(self._kube, intent.namespace, intent.pod))
        doubt = self.doubt(intent, lease, ledger) or _other_pod(intent, pod)
        if doubt is not None:
            return doubt
        assert pod is not None
        candidate = self._with_numbers(await read_candidate(self._kube, pod))
        why = protection(candidate, self._rules, self._clock.now())
        if why:
            return Verdict(outcome=Outcome.REJECTED_POLICY, detail=why)
        why = await self._misfit(intent, pod)
        if why:
            return Verdict(outcome=Outcome.REJECTED_FIT, detail=why)
        return Passed(move=self._move(intent, candidate), lease=lease)

    def doubt(self, intent: EvictionIntent, lease: Lease | None, ledger: Ledger) -> Verdict | None:
        """What time, the collector and another leader may have changed; cheap, so it is asked at each attempt."""
        if self._kube.server_time_bounds(intent.decided_at)[0] < ledger.created_at:
            return Verdict(outcome=Outcome.REJECTED_STALE, detail="decided before the ledger was made")
        return self._doubt_of_measurements(intent) or doubt_of_epoch(intent, lease, ledger.epoch)

    def _doubt_of_measurements(self, intent: EvictionIntent) -> Verdict | None:
        now = self._clock.now()
        return (
            doubt_of_time(intent, self._load, now)
            or doubt_of_coverage(self._picture.cycles, self._load, now)
            or doubt_of_readiness(*self._picture.ready, self._load)
        )

    def _with_numbers(self, candidate: Candidate) -> Candidate:
        """How many pods its workload has, and had, as the bus tells it."""
        workload, now = candidate.workload, self._clock.now()
        if workload is None:
            return candidate
        return msgspec.structs.replace(
            candidate,
            pods_now=self._picture.pods_of(workload),
            pods_before=self._picture.pods_before(workload, now - self._rules.protection.replicas_settling),
        )

    async def _lease(self) -> Lease | None:
        try:
            return await self._kube.get(LEASES, DESCHEDULER_LEASE, self._rules.own_namespace)
        except NotFound:
            return None

    async def _misfit(self, intent: EvictionIntent, pod: Pod) -> str:
        source = self._picture.node(intent.node)
        now = self._clock.now()
        if source is None:
            return f"nothing is known of node {intent.node}"
        if why := unsettled(source, self._load, now):
            return f"node {intent.node}: {why}"
        try:
            fit = fit_pod(pod, await read_volume_nodes(self._kube, pod))
        except (Unreadable, ValueError) as error:
            return str(error)
        return no_target(
            fit,
            intent.node,
            intent.target,
            intent.expected_reduction,
            self._picture.nodes,
            load=self._load,
            thresholds=self._thresholds,
            now=now,
            skew=self._picture.skew,
        )

    def _move(self, intent: EvictionIntent, candidate: Candidate) -> Move:
        return Move(
            namespace=intent.namespace,
            node=intent.node,
            workload=candidate.workload,
            replicas=candidate.replicas,
            unready=candidate.unready,
            cluster_pods=self._picture.pods,
        )


def _other_pod(intent: EvictionIntent, pod: Pod | None) -> Verdict | None:
    if pod is None:
        return Verdict(outcome=Outcome.ALREADY_GONE, detail="the pod is gone")
    if pod.metadata.uid != intent.pod_uid:
        return Verdict(outcome=Outcome.UID_CHANGED, detail="another pod has its name")
    if pod.spec.node_name != intent.node:
        return Verdict(outcome=Outcome.REJECTED_STALE, detail=f"it runs on {pod.spec.node_name or 'no node'}")
    return None
