"""Scoring policies, one per file. A policy's fields are its settings."""

from typing import TYPE_CHECKING

from equipoise.scorer.decisions.policies.mix import Mix
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES, SinglePolicy

__all__ = ["POLICIES", "SINGLE_POLICIES", "Policy", "ScoringPolicy"]

POLICIES: dict[str, type[ScoringPolicy]] = {**SINGLE_POLICIES, Mix.policy_name(): Mix}

if TYPE_CHECKING:
    Policy = ScoringPolicy
else:
    Policy = SinglePolicy | Mix
"""What `scorer.policy` accepts."""
