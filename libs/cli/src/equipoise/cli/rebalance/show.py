"""The plan of a campaign as text."""

from rich.console import Console
from rich.text import Text

from equipoise.cli.plan.summary import risk_text
from equipoise.cli.rebalance.forecast import CampaignForecast
from equipoise.cli.terminal import count, duration, print_section, table

MAX_WAVES = 30
"""Waves in the table. With -o json or yaml there is no limit."""


def show_forecast(plan: CampaignForecast, to: Console, *, problem: str = "") -> None:
    """The sum of the plan, and a row for each wave. `problem`: why the time is not known."""
    to.print(Text.assemble((f"{count(plan.moves, 'pod')} would move in {count(len(plan.waves), 'wave')}", "bold")))
    if plan.waves:
        made = table("wave>", "moves>", "without a gap>", f"{plan.resource} spread>", "done after>")
        made.add_row("start", "0", "", _points(plan.spread_before), "")
        for number, wave in enumerate(plan.waves[:MAX_WAVES], 1):
            after = "?" if wave.ends_after is None else duration(wave.ends_after)
            made.add_row(str(number), str(wave.moves), str(wave.without_gap), _points(wave.spread), after)
        more = f", {MAX_WAVES} of {len(plan.waves)}" if len(plan.waves) > MAX_WAVES else ""
        print_section(to, f"Waves{more}: one per evaluation", made)
        to.print()
        time = "an unknown time" if plan.duration is None else f"about {duration(plan.duration)}"
        spread = f"from {_points(plan.spread_before)} to {_points(plan.spread_after)} points"
        to.print(Text(f"In sum: the spread of {plan.resource} goes {spread} in {time}. {risk_text(plan.risk)}."))
        if plan.duration is None:
            to.print(Text(f"The time is not known: {problem or 'the limits allow not all of these moves'}", "yellow"))
        target = "" if plan.target_spread is None else f", or at a spread of {_points(plan.target_spread)} points"
        budget = count(plan.budget, "move")
        to.print(Text(f"It ends after {budget}, or {duration(plan.lasts)}{target}, or when nothing more would move."))
    if plan.unknown:
        loads = f"The load of {count(plan.unknown, 'node')} is not known, so no spread of the plan has them"
        to.print(Text(f"{loads}: better wait.", "yellow"))
    for strategy, why in plan.why.items():
        to.print(Text(f"Nothing more by {strategy}: {why}"))


def _points(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f}"
