"""Plans a campaign, and starts, pauses, resumes, ends and shows it."""

import asyncio
from collections.abc import Mapping

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.binder.decisions.campaign import start_refusal
from equipoise.binder.decisions.outlook import wave_ends
from equipoise.binder.decisions.status import LedgerStatus, campaign_text
from equipoise.binder.shell import campaign_store
from equipoise.binder.state.campaign import MAX_DURATION, MAX_STARTED_BY, Campaign, name_problem
from equipoise.cli.bus.cluster import TIMEOUT, BusCluster, bus_cluster, leader_in_cluster, plan_cluster
from equipoise.cli.bus.messages import send_request
from equipoise.cli.cluster_access.kubeconfig import ClusterName, cluster_name
from equipoise.cli.cluster_access.ledger_change import change_in_cluster
from equipoise.cli.confirmation import confirm
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import not_known, running_configurations
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.options import ClusterOptions, Output
from equipoise.cli.plan.run import NO_LEADER
from equipoise.cli.rebalance.forecast import CampaignForecast, campaign_of, first_wait, forecast, waves_of
from equipoise.cli.rebalance.show import show_forecast
from equipoise.cli.status.run import count_pods, limits_of, stored_ledger
from equipoise.cli.terminal import VisibleConsole, print_result
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.access import SelfReview
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.health import REAL
from equipoise.contracts.messages.plan import PlannedMove, PlanRequest, PlanResponse
from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.bus import BusError, NoResponders
from equipoise.runtime.configuration import Kubernetes, Logging, Nats
from equipoise.runtime.kubernetes.client import SELF_REVIEWS, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

PLAN_TIMEOUT = 90.0
"""Seconds for the plan of a campaign: it has up to 60 evaluations."""

DEFAULT_MOVES = 200

NO_CAMPAIGN = (
    "no campaign was started: the usual limits hold. `equipoise rebalance` shows what one would move, and writes "
    "nothing; `equipoise rebalance --apply --name NAME` starts it"
)

EARLIER_VERSION = "the descheduler that leads is of an earlier version, which plans no campaigns: upgrade it"


class CampaignOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a campaign; None if not given."""

    name: str | None
    moves: int | None
    target: float | None
    """The spread (0..1) at which it ends."""

    lasts: float | None
    """Seconds."""


class PreparedCampaign(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a campaign, and the cluster for which it was made."""

    cluster: BusCluster
    plan: CampaignForecast
    moves: list[PlannedMove]
    campaign: Campaign | None = None
    """The last campaign in the ledger; None if there was none, or if the ledger was not read."""

    problem: str = ""
    """Why the limits, and so the time, are not known; empty if they are."""

    refusal: str = ""
    """Why the campaign cannot start now; empty if it can."""


class ShownCampaign(msgspec.Struct, frozen=True, kw_only=True):
    """The last campaign."""

    cluster: ClusterName
    campaign: Campaign | None
    """None if there was none."""


def campaign_options(
    name: str | None, moves: int | None, points: float | None, expires: str | None, *, needs_name: bool
) -> CampaignOptions:
    """The checked options. Raises InvalidInput."""
    if needs_name and not name:
        raise InvalidInput("--apply needs --name, such as --name chg-4711: Events and outcomes contain it")
    if name and (why := name_problem(name)):
        raise InvalidInput(f"--name: {why}")
    lasts: float | None = None
    if expires is not None:
        try:
            lasts = float(Duration.parse(expires))
        except ValueError as error:
            raise InvalidInput(f"--expires: {error}") from None
        if not 0 < lasts <= MAX_DURATION:
            raise InvalidInput("--expires: use more than 0s and at most 7d")
    return CampaignOptions(name=name, moves=moves, target=None if points is None else points / 100, lasts=lasts)


async def prepare(server: Nats, options: ClusterOptions, chosen: CampaignOptions) -> PreparedCampaign:
    """The plan, of the leading descheduler, with the time by the limits. Writes nothing. Raises BusError and
    CommandFailed."""
    configure_logging(Logging(level="error"), "rebalance")
    bus_cluster(options, server)  # reports invalid options first
    request = PlanRequest(campaign=chosen.moves or DEFAULT_MOVES)
    try:
        plan = await send_request(server, PLAN_PREVIEW, request, PlanResponse, no_responder="", timeout=PLAN_TIMEOUT)
    except NoResponders:
        no_leader = f"{NO_LEADER.format(url=server.shown_url)}{await leader_in_cluster(options)}"
        raise NoResponders(no_leader) from None
    if plan.moves and not plan.waves:
        raise CommandFailed(EARLIER_VERSION)
    cluster = await plan_cluster(options, plan.leader.lease_uid, server)
    waves = waves_of(plan, chosen.target)
    ends, campaign, problem, refusal = None, None, "", ""
    if cluster.state == "confirmed":
        ends, campaign, problem, refusal = await _by_ledger(server, options, plan, waves, chosen.name)
    else:
        problem = refusal = f"the ledger was not read: {cluster}"
    made = forecast(plan, waves, ends, budget=chosen.moves, lasts=chosen.lasts, target=chosen.target)
    if not made.moves:
        whys = [f"{name}: {why}" for name, why in plan.why.items()]
        refusal = f"no pod would move ({'; '.join(whys) or 'the spread is at its target'})"
    elif plan.evictions != REAL:
        refusal = f"binders evict nothing: {plan.evictions or 'none of them has reported'}"
    moves = [move for wave in waves for move in wave]
    return PreparedCampaign(
        cluster=cluster, plan=made, moves=moves, campaign=campaign, problem=problem, refusal=refusal
    )


async def _by_ledger(
    server: Nats, options: ClusterOptions, plan: PlanResponse, waves: list[list[PlannedMove]], name: str | None
) -> tuple[list[float] | None, Campaign | None, str, str]:
    """Seconds after which each wave is done, the last campaign, why the seconds are not known, and why the campaign
    cannot start."""
    clock, connection = SystemClock(), options.connection()
    try:
        running = running_configurations(await read_effective(server, clock), "binder", clock.now())
        limits = limits_of(running[0]) if running else None
        async with asyncio.timeout(TIMEOUT), connect_kube(connection, "rebalance", clock) as kube:
            ledger = await stored_ledger(kube, connection.namespace)
            if isinstance(ledger, LedgerStatus):
                return None, None, ledger.why, ledger.why
            now = kube.server_time(clock.now())
            refusal = start_refusal(ledger, name or "unnamed", now)
            if limits is None:
                return None, ledger.campaign, not_known("binder"), refusal
            pods = await count_pods(kube, limits.evictions_per_cluster)
    except (BusError, KubeError, TimeoutError) as error:
        why = str(error) or "no response"
        return None, None, why, why
    begin = now + first_wait(plan)
    ends = wave_ends(waves, ledger, limits, begin, interval=plan.interval, cluster_pods=pods)
    return [end - now for end in ends], ledger.campaign, "", refusal


def show_plan(prepared: PreparedCampaign, *, output: Output) -> None:
    print_result(prepared, _show_prepared, output=output)


def _show_prepared(prepared: PreparedCampaign, to: Console) -> None:
    to.print(Text(str(prepared.cluster)))
    if prepared.campaign is not None:
        to.print(Text(f"last campaign: {campaign_text(prepared.campaign)}"))
    show_forecast(prepared.plan, to, problem=prepared.problem)
    if prepared.refusal:
        to.print(Text(f"It cannot start now: {prepared.refusal}", "yellow"))


def confirm_start(prepared: PreparedCampaign, chosen: CampaignOptions, *, confirmed: bool) -> None:
    """Show the plan on stderr, and ask. Raises CommandFailed if the campaign cannot start, or the answer is no."""
    if prepared.refusal:
        raise CommandFailed(f"NOT started: {prepared.refusal}")
    if not confirmed:
        _show_prepared(prepared, VisibleConsole(stderr=True))
    plan = prepared.plan
    question = f"Start campaign {chosen.name} with up to {plan.budget} moves in cluster {prepared.cluster.name}?"
    confirm(question, confirmed=confirmed, nothing_done="not started")


async def start(connection: Kubernetes, prepared: PreparedCampaign, chosen: CampaignOptions, *, output: Output) -> None:
    """Write the campaign to the ledger. Raises CommandFailed if it was not started, or if that is unknown."""
    name, plan = chosen.name or "", prepared.plan

    async def write(kube: Kube) -> tuple[str, Campaign]:
        campaign = campaign_of(plan, name, await _user(kube))
        started = await campaign_store.start(kube, connection.namespace, SystemClock(), campaign, lasts=plan.lasts)
        return f"started {campaign_text(started)}; `equipoise rebalance --status` shows it", started

    await change_in_cluster(connection, "rebalance", "started", write, output=output, what="the campaign is")


async def _user(kube: Kube) -> str:
    """The user of the request, as the API server knows it; empty if it does not state it."""
    try:
        review = await kube.create(SELF_REVIEWS, SelfReview(metadata=ObjectMeta()))
    except KubeError:
        return ""
    return plain_text(review.status.user_info.username, MAX_STARTED_BY)


def confirm_resume(connection: Kubernetes, environment: Mapping[str, str], *, confirmed: bool) -> None:
    question = f"Continue the campaign in cluster {cluster_name(connection, environment)}?"
    confirm(question, confirmed=confirmed, nothing_done="not resumed")


async def change(connection: Kubernetes, action: str, *, output: Output) -> None:
    """Pause, resume or abort the campaign. Raises CommandFailed if that is not done, or if it is unknown."""
    clock, namespace = SystemClock(), connection.namespace

    async def pause(kube: Kube) -> tuple[str, Campaign]:
        campaign = await campaign_store.set_paused(kube, namespace, clock, paused=True)
        return (
            f"paused {campaign_text(campaign)}: the usual limits hold, until `equipoise rebalance --resume`",
            campaign,
        )

    async def resume(kube: Kube) -> tuple[str, Campaign]:
        campaign = await campaign_store.set_paused(kube, namespace, clock, paused=False)
        return f"resumed {campaign_text(campaign)}", campaign

    async def abort(kube: Kube) -> tuple[str, Campaign]:
        user = await _user(kube)
        campaign = await campaign_store.abort(kube, namespace, clock, f"aborted by {user}" if user else "aborted")
        return f"aborted {campaign_text(campaign)}", campaign

    what = "the campaign is"
    if action == "pause":
        await change_in_cluster(connection, "rebalance", "paused", pause, output=output, what=what)
    elif action == "resume":
        await change_in_cluster(connection, "rebalance", "resumed", resume, output=output, what=what)
    else:
        await change_in_cluster(connection, "rebalance", "aborted", abort, output=output, what=what)


async def show_status(options: ClusterOptions, environment: Mapping[str, str], *, output: Output) -> None:
    """Show the last campaign. Raises CommandFailed if the ledger cannot be read."""
    configure_logging(Logging(level="error"), "rebalance")
    connection = options.connection()
    name = cluster_name(connection, environment)
    try:
        async with connect_kube(connection, "rebalance", SystemClock()) as kube:
            ledger = await stored_ledger(kube, connection.namespace)
    except KubeError as error:
        raise CommandFailed(f"the ledger cannot be read: {error}") from None
    if isinstance(ledger, LedgerStatus):
        raise CommandFailed(ledger.why)
    print_result(ShownCampaign(cluster=name, campaign=ledger.campaign), _show_campaign, output=output)


def _show_campaign(shown: ShownCampaign, to: Console) -> None:
    to.print(Text(f"cluster: {shown.cluster}"))
    to.print(Text(NO_CAMPAIGN if shown.campaign is None else f"campaign: {campaign_text(shown.campaign)}"))
