"""Requests the plan from the leading descheduler, and prints it, or what changed since the last one."""

import asyncio
from collections.abc import Mapping

import click

from equipoise.cli.plan.changes import LastPlans, plan_changes
from equipoise.cli.plan.text import show, show_changes
from equipoise.cli.terminal import console, print_json
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.runtime.bus import BusUnavailable, NoResponders, connect
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

TIMEOUT = 20.0
"""Seconds for the connection and the response; with 5,000 nodes a plan takes seconds."""


async def run_plan(server: Nats, environment: Mapping[str, str], *, as_json: bool, only_changes: bool) -> None:
    """The command. Saves the plan as the last one shown of this cluster. Raises BusError."""
    configure_logging(Logging(level="error"), "plan")
    plan = await request_plan(server)
    plans = LastPlans(environment)
    before = plans.last(plan)
    if only_changes and before is None:
        click.echo("no earlier plan of this cluster: everything is new", err=True)
    if only_changes and (as_json or before is not None):
        changes = plan_changes(before or PlanResponse(leader=plan.leader, planned_at=plan.planned_at), plan)
        if as_json:
            print_json(changes)
        else:
            show_changes(changes, console())
    elif as_json:
        print_json(plan)
    else:
        show(plan, console())
    try:
        plans.save(plan)
    except OSError as error:
        click.echo(f"could not save the plan for --diff: {error.filename}: {error.strerror}", err=True)


async def request_plan(server: Nats, *, timeout: float = TIMEOUT) -> PlanResponse:
    """Raises BusError if there is no response in time."""
    try:
        async with asyncio.timeout(timeout), connect(server, "tap", clock=SystemClock()) as bus:
            return await bus.request(PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=timeout)
    except TimeoutError:
        raise BusUnavailable(
            f"no connection to {server.url} within {timeout:g} s: check --nats, and --user and --password-file"
        ) from None
    except NoResponders:
        raise NoResponders(
            f"no descheduler leads at {server.url}, and only the leader has a plan: check that one is running and "
            "holds its Lease (`leading` in its /readyz)"
        ) from None
