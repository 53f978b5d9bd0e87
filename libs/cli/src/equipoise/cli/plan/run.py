"""Requests the plan from the leading descheduler, and prints it, or what changed since the last one."""

from collections.abc import Mapping

import click

from equipoise.cli.bus import send_request
from equipoise.cli.plan.changes import LastPlans, plan_changes
from equipoise.cli.plan.text import show, show_changes
from equipoise.cli.terminal import print_result
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.logging import configure_logging

NO_LEADER = (
    "no descheduler leads at {url}, and only the leader has a plan: check that one is running and holds its Lease "
    "(`leading` in its /readyz)"
)


async def run_plan(server: Nats, environment: Mapping[str, str], *, as_json: bool, only_changes: bool) -> None:
    """The command. Saves the plan as the last one shown of this cluster. Raises BusError."""
    configure_logging(Logging(level="error"), "plan")
    no_leader = NO_LEADER.format(url=server.url)
    plan = await send_request(server, PLAN_PREVIEW, PlanRequest(), PlanResponse, no_responder=no_leader)
    plans = LastPlans(environment)
    before = plans.last(plan)
    if only_changes and before is None:
        click.echo("no earlier plan of this cluster: everything is new", err=True)
    if only_changes and (as_json or before is not None):
        changes = plan_changes(before or PlanResponse(leader=plan.leader, planned_at=plan.planned_at), plan)
        print_result(changes, show_changes, as_json=as_json)
    else:
        print_result(plan, show, as_json=as_json)
    try:
        plans.save(plan)
    except OSError as error:
        click.echo(f"could not save the plan for --diff: {error.filename}: {error.strerror}", err=True)
