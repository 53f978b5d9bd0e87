"""Findings as lines for people."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from equipoise.cli.doctor.environment import Finding, State

_STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "error": "bold red", "unknown": "magenta"}

MAX_ALIKE = 5
"""Consecutive findings of one check with the same fix; more of them are only counted."""

_INDENT = " " * 9


def finding_lines(findings: Sequence[Finding]) -> Iterator[Text]:
    """A line for each finding, and one for what to do about those that need the same."""
    for (state, fix), group in groupby(findings, key=lambda finding: (finding.state, finding.fix)):
        alike = list(group)
        for finding in alike[:MAX_ALIKE]:
            yield Text.assemble((f"{state:<9}", _STYLES[state]), f"{finding.subject}: {finding.message}")
        if len(alike) > MAX_ALIKE:
            yield Text(f"{_INDENT}and {len(alike) - MAX_ALIKE} more (-o json has all)", style=_STYLES[state])
        if fix:
            yield Text(f"{_INDENT}→ {fix}")
