"""What a check has found."""

from typing import Literal

import msgspec

State = Literal["ok", "warning", "error", "unknown"]
"""unknown: it could not be looked at, which says nothing of how it is."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    check: str = ""
    """By its name in CHECKS."""

    state: State
    where: str
    what: str
    to_do: str = ""
    """Empty when there is nothing to do."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, in the order of the checks."""

    findings: list[Finding]

    @property
    def well(self) -> bool:
        """Is nothing wrong? A warning can wait, and what is unknown is not wrong for that."""
        return all(finding.state != "error" for finding in self.findings)
