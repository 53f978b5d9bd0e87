"""A demo of a campaign: the stock scheduler fills some nodes, others join empty, and `equipoise rebalance` levels."""

import asyncio
import time
from dataclasses import dataclass

import msgspec

from equipoise.binder.shell import campaign_store
from equipoise.binder.state.campaign import Campaign
from equipoise.cli.demo import figures
from equipoise.cli.demo.figures import load_table
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.manifests import node_documents
from equipoise.cli.demo.node_loads import NodeLoads, trace_cores
from equipoise.cli.demo.options import DemoOptions
from equipoise.cli.demo.rebalance.figures import (
    Event,
    RebalanceResult,
    after_first_third,
    course,
    rebalance_sentences,
    until_half,
)
from equipoise.cli.demo.rebalance.trace import NEW_NODES, with_new_nodes
from equipoise.cli.demo.run import Demo, started_demo
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import ClusterOptions
from equipoise.cli.rebalance.forecast import campaign_of
from equipoise.cli.rebalance.run import CampaignOptions, PreparedCampaign, prepare
from equipoise.cli.status.run import stored_ledger
from equipoise.cli.up.supervisor import Supervisor
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Kubernetes, Nats
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed import audit

NAME = "after-new-nodes"
LASTS = 480.0
"""Seconds after which the campaign expires."""

AGREEING = 4.0
"""Points by which the spread at the start of the plan may differ from the measured one."""

PLAN_TIMEOUT = 300.0
"""Seconds within which the loads of all nodes are known, so that there is a plan."""


async def run_rebalance_demo(options: DemoOptions, screen: Screen) -> RebalanceResult:
    """Run the demo and return its result.

    Raises the errors of a cluster or service that does not start, and CommandFailed if there is no plan.
    """
    began = time.monotonic()
    async with started_demo(options, screen) as demo:
        await demo.start()
        rebalance = Rebalance(demo)
        await rebalance.add_nodes()
        before = await demo.measure_before()
        async with demo.equipoise() as supervisor:
            prepared, campaign = await rebalance.run(before, supervisor)
            left_over = await rebalance.moves_end()
            after = await demo.measure_after_moves()
            result = rebalance.result(prepared, campaign, before, after, left_over, time.monotonic() - began)
            screen.print("")
            screen.print(load_table(before, after))
            for sentence in rebalance_sentences(result):
                screen.print(sentence)
            if options.keep:
                await demo.keep_running(result.encoded())
    return result


@dataclass
class Rebalance:
    """The campaign of one run."""

    demo: Demo

    def __post_init__(self) -> None:
        self.trace = with_new_nodes(self.demo.trace)

    async def add_nodes(self) -> None:
        """The new nodes join."""
        demo, old = self.demo, len(self.demo.trace.nodes)
        new = msgspec.structs.replace(self.trace, nodes=self.trace.nodes[old:])
        await demo.cluster.add_nodes(node_documents(new))
        window = 2 * demo.options.step_seconds
        demo.loads = NodeLoads(demo.session, demo.cluster.prometheus_url, trace_cores(self.trace), window)
        await demo.all_run(len(self.trace.pods) + len(self.trace.nodes))
        demo.screen.print(
            f"{NEW_NODES} nodes have joined, with a pod of the DaemonSet each: nothing fills them by itself"
        )

    async def run(self, before: dict[str, float], supervisor: Supervisor) -> tuple[PreparedCampaign, Campaign]:
        """Plans and starts the campaign, and waits until it has ended."""
        demo = self.demo
        demo.view.before, demo.view.seconds, demo.view.phase = before, LASTS, f"campaign {NAME}"
        connection = Kubernetes(kubeconfig=str(demo.cluster.kubeconfig))
        watch = asyncio.create_task(supervisor.watch())
        try:
            async with connect_kube(connection, "demo", SystemClock()) as kube, demo.following():
                prepared = await self._planned(figures.spread(before))
                demo.screen.print(
                    f"equipoise rebalance: {prepared.plan.moves} moves in {len(prepared.plan.waves)} waves, the spread "
                    f"from {_points(prepared.plan.spread_before)} to {_points(prepared.plan.spread_after)} points"
                )
                campaign = campaign_of(prepared.plan, NAME, "the demo")
                campaign = await campaign_store.start(kube, connection.namespace, SystemClock(), campaign, lasts=LASTS)
                while campaign.ended_at is None:
                    await demo.tick()
                    if watch.done():
                        watch.result()
                    campaign = await _stored_campaign(kube, connection.namespace)
                return prepared, campaign
        finally:
            watch.cancel()

    async def _planned(self, measured: float) -> PreparedCampaign:
        """The first plan that can start and begins with the spread that was `measured`, in points.

        Where Prometheus scrapes late, compressed windows are too low for a while: a campaign with such a plan stops.
        """
        cluster = ClusterOptions(
            command="demo", configuration=None, kubeconfig=str(self.demo.cluster.kubeconfig), context=None
        )
        options = CampaignOptions(name=NAME, moves=None, target=None, lasts=LASTS)
        deadline = time.monotonic() + PLAN_TIMEOUT
        while True:
            try:
                prepared = await prepare(Nats(url=self.demo.cluster.nats_url), cluster, options)
            except BusError as error:  # no descheduler leads yet
                why = str(error)
            else:
                begin = prepared.plan.spread_before
                known = begin is not None and abs(100 * begin - measured) <= AGREEING
                why = prepared.refusal or ("" if known else "the plan does not know the load of all nodes")
                if not why and prepared.plan.nodes == len(self.trace.nodes):
                    return prepared
            if time.monotonic() > deadline:
                raise CommandFailed(f"no campaign can start: {why}")
            await self.demo.tick()

    async def moves_end(self) -> int:
        """Waits until the moves of the campaign have ended. Returns the number of detached pods that remain."""
        assert self.demo.surge is not None, "a campaign of the demo moves without a gap"
        return await self.demo.surge.left_over()

    def usage(self) -> dict[str, float]:
        """The cores that a pod of each workload uses, by `namespace/name`: the same ones at any time."""
        trace = self.trace
        return {
            f"{workload.namespace}/{workload.name}": float(milli) / 1_000
            for workload, milli in zip(trace.workloads, trace.cpu_milli[:, 0], strict=True)
        }

    def result(
        self,
        prepared: PreparedCampaign,
        campaign: Campaign,
        before: dict[str, float],
        after: dict[str, float],
        left_over: int,
        seconds: float,
    ) -> RebalanceResult:
        demo, trace, plan = self.demo, self.trace, prepared.plan
        assert demo.surge is not None, "see `moves_end`"
        log = demo.cluster.audit_log
        events = figures.read_audit_log(log)
        written: list[Event] = [*audit.bindings(log), *audit.evictions(log)]
        spreads = course(written, campaign.started_at, self.usage(), trace_cores(trace))
        third = after_first_third(spreads)
        return RebalanceResult(
            nodes=len(trace.nodes),
            new_nodes=NEW_NODES,
            pods=len(trace.pods),
            time_factor=demo.factor,
            limits=demo.document["binder"]["limits"],
            campaign=campaign.name,
            ended=campaign.ended,
            planned_moves=plan.moves,
            waves=len(plan.waves),
            moves=len(spreads) - 1,
            spread_before=round(figures.spread(before), 1),
            spread_planned=None if plan.spread_after is None else round(100 * plan.spread_after, 1),
            spread_after=round(figures.spread(after), 1),
            std_before=round(figures.deviation(before), 2),
            std_after=round(figures.deviation(after), 2),
            moves_until_half=until_half(spreads),
            spread_after_first_third=None if third is None else round(third, 1),
            campaign_seconds=round((campaign.ended_at or 0.0) - campaign.started_at, 1),
            same_node_returns=events.same_node_returns(),
            surge=demo.surge.result(demo.document["surge"]["mode"], events, left_over),
            seconds=round(seconds, 1),
        )


async def _stored_campaign(kube: Kube, namespace: str) -> Campaign:
    """The campaign in the ledger. Raises CommandFailed if it is not there."""
    ledger = await stored_ledger(kube, namespace)
    campaign = getattr(ledger, "campaign", None)
    if not isinstance(campaign, Campaign):
        raise CommandFailed("the ledger has no campaign any more")
    return campaign


def _points(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.0f}"
