"""Findings as lines for people."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from equipoise.cli.doctor.environment import Finding, State
from equipoise.cli.terminal import labelled

_STYLES: dict[State, str] = {"ok": "green", "warning": "yellow", "error": "bold red", "unknown": "magenta"}

MAX_ALIKE = 5
"""Consecutive findings of one check with the same fix; more of them are only counted."""

_STATE_WIDTH = 9


def finding_lines(findings: Sequence[Finding]) -> Iterator[Table]:
    """A line for each finding, and one for what to do about those that need the same."""
    for (state, fix), group in groupby(findings, key=lambda finding: (finding.state, finding.fix)):
        alike, style = list(group), _STYLES[state]
        for finding in alike[:MAX_ALIKE]:
            yield labelled(Text(state, style), Text(f"{finding.subject}: {finding.message}"), _STATE_WIDTH)
        if len(alike) > MAX_ALIKE:
            text = f"and {len(alike) - MAX_ALIKE} more (-o json has all)"
            yield labelled(Text(), Text(text, style), _STATE_WIDTH)
        if fix:
            yield labelled(Text(), Text(f"→ {fix}"), _STATE_WIDTH)
