"""`equipoise rebalance`: its plan, and the campaign that it starts and ends."""

import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from binder.campaigns import a_campaign
from binder.ledgers import a_ledger
from builders import a_workload
from cli.buses import Bus
from cli.http_clusters import LEDGER_PATH, OWN, HttpCluster
from cli.narrow import assert_never_cut
from cli.published_modes import publish_configuration
from rich.console import Console

from equipoise.binder.state.campaign import MAX_DURATION, MAX_EXPECTED, Campaign
from equipoise.binder.state.ledger import Ledger
from equipoise.cli.rebalance.forecast import CampaignForecast, campaign_of, forecast, resource_of, waves_of
from equipoise.cli.rebalance.show import show_forecast
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.messages.descheduling import LoadExtremes
from equipoise.contracts.messages.plan import PlannedMove, PlannedWave, PlanRequest, PlanResponse
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import Endpoint
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/equipoise-descheduler"


def loads(cpu: float | None, memory: float = 0.2) -> LoadExtremes:
    return LoadExtremes(highest=Resources(cpu=0.9, memory=0.3), spread=Resources(cpu=cpu, memory=memory))


def a_move(number: int, **fields: Any) -> PlannedMove:
    defaults: dict[str, Any] = {
        "strategy": "low_node_load",
        "namespace": "shop",
        "pod": f"web-{number}",
        "workload": a_workload(f"app-{number}"),
        "node": f"node-{number}",
        "target": "new-1",
        "reason": "hot",
        "expected_reduction": Resources(cpu=1.0),
        "sampled_at": 1.0,
        "cost": MoveCost(start=20.0),
    }
    return PlannedMove(**(defaults | fields))


def a_plan(*spreads: float, **fields: Any) -> PlanResponse:
    """Two moves in each wave, after which the spread of CPU is as given; before it is 0.6."""
    defaults: dict[str, Any] = {
        "moves": [a_move(number, without_gap=number % 2 == 0) for number in range(2 * len(spreads))],
        "waves": [PlannedWave(moves=2, after=loads(spread)) for spread in spreads],
        "before": loads(0.6),
        "after": loads(spreads[-1] if spreads else 0.6),
        "why": {"low_node_load": "no node is above its threshold"},
        "evictions": "real",
        "considered": 50,
        "interval": 120.0,
        "unscheduled": 0,
        "leader": LeaseEpoch(lease_uid="lease", transitions=1, holder="descheduler-1"),
        "planned_at": SystemClock().now(),
    }
    return PlanResponse(**(defaults | fields))


def forecast_of(plan: PlanResponse, **options: Any) -> CampaignForecast:
    given: dict[str, Any] = {"budget": None, "lasts": None, "target": None}
    chosen = given | options
    waves = waves_of(plan, chosen["target"])
    return forecast(plan, waves, [120.0 * number for number in range(len(waves))], **chosen)


# The forecast


def test_a_forecast_has_waves_risk_and_time() -> None:
    plan = forecast_of(a_plan(0.4, 0.3))
    assert [(wave.moves, wave.without_gap, wave.spread, wave.ends_after) for wave in plan.waves] == [
        (2, 1, 0.4, 0.0), (2, 1, 0.3, 120.0)
    ]  # fmt: skip
    assert (plan.moves, plan.without_gap, plan.resource) == (4, 2, "cpu")
    assert (plan.spread_before, plan.spread_after, plan.duration) == (0.6, 0.3, 120.0)
    assert (plan.risk.pods, plan.risk.seconds, plan.risk.unknown) == (2, 40.0, 0)
    assert (plan.budget, plan.lasts, plan.nodes, plan.fills) == (4, 3_600.0, 50, 1)


def test_no_terminal_is_too_narrow_for_a_forecast() -> None:
    assert_never_cut(show_forecast, forecast_of(a_plan(0.4, unknown=2)))


def test_nodes_of_unknown_load_are_named_because_the_plan_does_not_count_them() -> None:
    """A campaign that begins without them stops when they become known."""
    to = Console(file=io.StringIO(), width=200)
    for unknown in (2, 0, None):
        show_forecast(forecast_of(a_plan(0.4, unknown=unknown)), to)
    text = to.file.getvalue()  # type: ignore[attr-defined]

    assert text.count("The load of 2 nodes is not known") == text.count("is not known, so") == 1


def test_a_forecast_ends_at_the_target() -> None:
    plan = forecast_of(a_plan(0.4, 0.3, 0.2), target=0.3)
    assert [wave.spread for wave in plan.waves] == [0.4, 0.3]
    assert (plan.budget, campaign_of(plan, "a", "").target_spread) == (4, 0.3)


def test_a_budget_and_a_duration_that_are_given_count() -> None:
    assert forecast_of(a_plan(0.4), budget=100).budget == 100
    assert forecast_of(a_plan(0.4), lasts=60.0).lasts == 60.0
    assert forecast_of(a_plan(0.4), lasts=9e9).lasts == MAX_DURATION


def test_an_unknown_time_or_spread_is_no_number() -> None:
    plan = a_plan(0.4, before=None, after=None)
    unknown = forecast(plan, waves_of(plan, None), None, budget=None, lasts=None, target=0.1)
    assert (unknown.duration, unknown.spread_before, unknown.lasts) == (None, None, 86_400.0)
    limited = forecast(plan, waves_of(plan, None), [], budget=None, lasts=None, target=None)
    assert limited.waves[0].ends_after is None


def test_the_resource_is_that_whose_spread_falls_most() -> None:
    assert resource_of(a_plan(0.4)) == "cpu"
    assert resource_of(a_plan(0.6, before=loads(0.6, 0.5), after=loads(0.6, 0.1))) == "memory"
    assert resource_of(a_plan(before=None, after=None)) in ("cpu", "memory")


def test_a_campaign_keeps_a_course_of_limited_size() -> None:
    """Its first and last point are those of the plan."""
    plan = forecast_of(a_plan(*(0.6 - number / 1_000 for number in range(1, 201))))
    course = campaign_of(plan, "chg-1", "alice").expected
    assert len(course) == MAX_EXPECTED
    assert (course[0].moves, course[0].spread) == (0, 0.6)
    assert (course[-1].moves, course[-1].spread) == (400, pytest.approx(0.4))
    assert [point.moves for point in course] == sorted({point.moves for point in course})
    assert len(campaign_of(forecast_of(a_plan(0.4)), "chg-1", "").expected) == 2


def text_of(plan: CampaignForecast, **options: Any) -> str:
    to = io.StringIO()
    show_forecast(plan, Console(file=to, width=200), **options)
    return to.getvalue()


def test_the_text_has_a_row_for_each_wave_and_the_sum() -> None:
    text = text_of(forecast_of(a_plan(0.4, 0.3)))
    assert "4 pods would move in 2 waves" in text
    assert [line.split()[:4] for line in text.splitlines() if line.startswith("    1")] == [["1", "2", "1", "40.0"]]
    assert "the spread of cpu goes from 60.0 to 30.0 points in about 2 min" in text
    assert "2 pods are missing until the replacement is ready, about 40 s" in text
    assert "It ends after 4 moves, or 60 min, or when nothing more would move." in text


# The command


@asynccontextmanager
async def planning(
    bus: Bus, cluster: HttpCluster, plan: PlanResponse, ledger: Ledger
) -> AsyncIterator[list[PlanRequest]]:
    """A descheduler that responds with this plan, a binder that evicts, and the ledger of their cluster."""
    requests: list[PlanRequest] = []

    async def respond(request: PlanRequest) -> PlanResponse:
        requests.append(request)
        return plan

    cluster.put_ledger(ledger)
    cluster.objects["/api/v1/pods"] = {"kind": "PodList", "metadata": {}, "items": []}
    cluster.objects[LEASE] = {"metadata": {"name": "equipoise-descheduler", "namespace": OWN, "uid": "lease"}}
    await publish_configuration(bus, "binder-1", {})
    async with open_bus(bus.settings("descheduler"), "descheduler", SystemClock(), None) as service:
        endpoint = Endpoint(subject=PLAN_PREVIEW, request_type=PlanRequest, handler=respond, share=1.0)
        stop = await service.serve("descheduler", [endpoint])
        yield requests
        await stop()


async def rebalance(bus: Bus, cluster: HttpCluster, *arguments: str) -> tuple[int, str]:
    return await bus.run("rebalance", *arguments, KUBECONFIG=str(cluster.file))


async def test_a_plan_writes_nothing(bus: Bus, cluster: HttpCluster) -> None:
    async with planning(bus, cluster, a_plan(0.4, 0.3), a_ledger()) as requests:
        code, output = await rebalance(bus, cluster, "--moves", "50")
        _, encoded = await rebalance(bus, cluster, "--plan", "-o", "json")
    assert code == 0, output
    assert output.startswith(f"cluster: castle {cluster.url} (context home)\n4 pods would move in 2 waves\n")
    assert re.search(r"in about 2\.\d min", output)
    assert [request.campaign for request in requests] == [50, 200]
    assert cluster.ledger == a_ledger()
    shown = json.loads(encoded)
    assert (shown["plan"]["budget"], len(shown["moves"]), shown["refusal"]) == (4, 4, "")
    assert [wave["spread"] for wave in shown["plan"]["waves"]] == [0.4, 0.3]


async def test_apply_writes_the_campaign_with_the_course_of_its_plan(bus: Bus, cluster: HttpCluster) -> None:
    """A second one is refused by name."""
    async with planning(bus, cluster, a_plan(0.4, 0.3), a_ledger()):
        code, output = await rebalance(
            bus, cluster, "--apply", "--name", "chg-1", "--yes", "--target-spread", "30", "--expires", "2h"
        )
        assert code == 0, output
        campaign = cluster.ledger.campaign
        assert campaign is not None
        assert (campaign.name, campaign.budget, campaign.used, campaign.target_spread) == ("chg-1", 4, 0, 0.3)
        assert campaign.expires_at - campaign.started_at == 7_200
        assert [(point.moves, point.spread) for point in campaign.expected] == [(0, 0.6), (2, 0.4), (4, 0.3)]
        assert (campaign.nodes, campaign.fills, campaign.unscheduled) == (50, 1, 0)
        assert "started campaign chg-1: 0 of 4 moves, running until" in output

        code, output = await rebalance(bus, cluster, "--apply", "--name", "chg-2", "--yes")
        assert code == 1
        assert "NOT started: campaign chg-1 is running (0 of 4 moves)" in output


def campaign_in(cluster: HttpCluster) -> Campaign:
    assert cluster.ledger.campaign is not None
    return cluster.ledger.campaign


async def test_a_campaign_is_paused_resumed_and_aborted(cluster: HttpCluster) -> None:
    """It is resumed only with a confirmation, as evictions are."""
    now = SystemClock().now()
    cluster.put_ledger(a_ledger(campaign=a_campaign(started_at=now - 60, expires_at=now + 3_600)))
    code, output = await cluster.run("rebalance", "--status", "-o", "json")
    assert (code, json.loads(output)["campaign"]["name"]) == (0, "chg-1")
    code, output = await cluster.run("rebalance", "--pause")
    assert (code, campaign_in(cluster).paused) == (0, True), output
    assert "the usual limits hold, until `equipoise rebalance --resume`" in output
    code, output = await cluster.run("rebalance", "--resume")
    assert code == 2
    assert campaign_in(cluster).paused
    code, output = await cluster.run("rebalance", "--resume", "--yes")
    assert (code, campaign_in(cluster).paused) == (0, False), output
    code, output = await cluster.run("rebalance", "--abort")
    assert (code, campaign_in(cluster).ended) == (0, "aborted"), output
    assert "ended at" in output
    code, output = await cluster.run("rebalance", "--abort")
    assert code == 1
    assert "NOT aborted: campaign chg-1 has ended: aborted" in output


async def test_apply_without_a_terminal_needs_yes(bus: Bus, cluster: HttpCluster) -> None:
    async with planning(bus, cluster, a_plan(0.4), a_ledger()):
        code, output = await rebalance(bus, cluster, "--apply", "--name", "chg-1")
    assert code == 2
    assert "not started: the command needs a confirmation, and there is no terminal: use --yes" in output
    assert cluster.ledger.campaign is None


async def test_apply_without_the_right_to_update_the_ledger_starts_nothing(bus: Bus, cluster: HttpCluster) -> None:
    async with planning(bus, cluster, a_plan(0.4), a_ledger()):
        cluster.refused.add(LEDGER_PATH)
        code, output = await rebalance(bus, cluster, "--apply", "--name", "chg-1", "--yes")
    assert code == 1
    assert f"NOT started: ConfigMap {OWN}/equipoise-ledger may not be read" in output


@pytest.mark.parametrize(
    ("plan", "ledger", "why"),
    [
        (a_plan(), a_ledger(), "no pod would move (low_node_load: no node is above its threshold)"),
        (a_plan(0.4, evictions="dry run"), a_ledger(), "binders evict nothing: dry run"),
        (a_plan(0.4), a_ledger(paused=True, pause_reason="a release"), "evictions are paused (a release)"),
        (a_plan(0.4, waves=[]), a_ledger(), "is of an earlier version"),
    ],
)
async def test_a_campaign_that_could_move_nothing_is_not_started(
    bus: Bus, cluster: HttpCluster, plan: PlanResponse, ledger: Ledger, why: str
) -> None:
    async with planning(bus, cluster, plan, ledger):
        code, output = await rebalance(bus, cluster, "--apply", "--name", "chg-1", "--yes")
    assert code == 1
    assert why in output
    assert cluster.ledger.campaign is None


async def test_a_campaign_is_not_started_in_another_cluster_than_that_of_the_plan(
    bus: Bus, cluster: HttpCluster
) -> None:
    async with planning(bus, cluster, a_plan(0.4), a_ledger()):
        cluster.objects[LEASE]["metadata"]["uid"] = "other"
        code, output = await rebalance(bus, cluster, "--apply", "--name", "chg-1", "--yes")
    assert code == 1
    assert "NOT started: the ledger was not read: cluster: NOT castle" in output
    assert cluster.ledger.campaign is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--apply"], "--apply needs --name"),
        (["--apply", "--name", "A b"], "--name: 'A b' is no name of a Kubernetes object"),
        (["--apply", "--abort"], "choose one of --apply, --abort"),
        (["--expires", "soon"], "--expires: 'soon' is not a duration"),
        (["--expires", "8d"], "--expires: use more than 0s and at most 7d"),
        (["--moves", "0"], "--moves"),
        (["--moves", "501"], "--moves"),
    ],
)
async def test_invalid_options_are_named(cluster: HttpCluster, arguments: list[str], error: str) -> None:
    code, output = await cluster.run("rebalance", *arguments)
    assert code == 2
    assert error in output


async def test_status_without_a_campaign_states_what_starts_one(cluster: HttpCluster) -> None:
    cluster.put_ledger(a_ledger())
    code, output = await cluster.run("rebalance", "--status")
    assert code == 0
    assert "no campaign was started: the usual limits hold" in output
    assert "--apply --name NAME" in output
    cluster.put_ledger(a_ledger(campaign=msgspec.structs.replace(a_campaign(), started_by="alice")))
    code, output = await cluster.run("status")
    assert "\ncampaign chg-1, started by alice: 0 of 8 moves, running until" in output
