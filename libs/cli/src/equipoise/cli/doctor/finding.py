"""The results of checks."""

from typing import Literal

import msgspec

State = Literal["ok", "warning", "error", "unknown"]
"""unknown: the check could not run, or its result says nothing."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    check: str = ""
    """Its name in CHECKS."""

    state: State
    subject: str
    message: str
    fix: str = ""
    """Empty if there is nothing to fix."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings, in the order of CHECKS."""

    healthy: bool
    """No finding is an error; warnings and unknown results do not count."""

    findings: list[Finding]
