"""A diagnosis for people."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from equipoise.cli.doctor.finding import Diagnosis, Finding, State

STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "error": "bold red", "unknown": "magenta"}

NAMED = 5
"""Findings of one check that want the same done, after which the rest is only counted: of nodes there may be many."""

_INDENT = " " * 9


def show(diagnosis: Diagnosis, to: Console) -> None:
    """Check by check, then a line that adds up."""
    for check, findings in groupby(diagnosis.findings, key=lambda finding: finding.check):
        to.print(Text(check, style="bold"))
        for line in _lines(list(findings)):
            to.print(line)
    to.print()
    to.print(_sum(diagnosis))


def _lines(findings: Sequence[Finding]) -> Iterator[Text]:
    for (state, to_do), group in groupby(findings, key=lambda finding: (finding.state, finding.to_do)):
        alike = list(group)
        for finding in alike[:NAMED]:
            yield Text.assemble((f"{state:<9}", STYLES[state]), f"{finding.where}: {finding.what}")
        if len(alike) > NAMED:
            yield Text(f"{_INDENT}and {len(alike) - NAMED} more (-o json names them)", style=STYLES[state])
        if to_do:
            yield Text(f"{_INDENT}→ {to_do}")


def _sum(diagnosis: Diagnosis) -> Text:
    counts = {state: sum(finding.state == state for finding in diagnosis.findings) for state in STYLES}
    told = [f"{counts['error']} wrong", f"{counts['warning']} to look at", f"{counts['unknown']} not known"]
    if diagnosis.well:
        return Text(f"Nothing is wrong ({', '.join(told[1:])}).", style="bold green")
    return Text(f"{told[0]}, {told[1]}, {told[2]}.", style="bold red")
