"""A diagnosis on a terminal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from equipoise.cli.doctor.environment import Diagnosis, Finding, State

STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "error": "bold red", "unknown": "magenta"}

MAX_ALIKE = 5
"""Consecutive findings of one check with the same fix; more of them are only counted."""

_INDENT = " " * 9


def show(diagnosis: Diagnosis, to: Console) -> None:
    """Every check, then the number of findings."""
    for check, findings in groupby(diagnosis.findings, key=lambda finding: finding.check):
        to.print(Text(check, style="bold"))
        for line in _lines(list(findings)):
            to.print(line)
    to.print()
    to.print(_summary(diagnosis))


def _lines(findings: Sequence[Finding]) -> Iterator[Text]:
    for (state, fix), group in groupby(findings, key=lambda finding: (finding.state, finding.fix)):
        alike = list(group)
        for finding in alike[:MAX_ALIKE]:
            yield Text.assemble((f"{state:<9}", STYLES[state]), f"{finding.subject}: {finding.message}")
        if len(alike) > MAX_ALIKE:
            yield Text(f"{_INDENT}and {len(alike) - MAX_ALIKE} more (-o json has all)", style=STYLES[state])
        if fix:
            yield Text(f"{_INDENT}→ {fix}")


def _summary(diagnosis: Diagnosis) -> Text:
    counts = Counter(finding.state for finding in diagnosis.findings)
    text = f"{counts['error']} errors, {counts['warning']} warnings, {counts['unknown']} unknown"
    return Text(text, style="bold green" if diagnosis.healthy else "bold red")
