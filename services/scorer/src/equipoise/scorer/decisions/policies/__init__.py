"""Scoring policies, one per file. A policy's fields are its settings."""

from typing import TYPE_CHECKING

from equipoise.scorer.decisions.policies.mix import Mix
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES, SinglePolicy

__all__ = ["SINGLE_POLICIES", "Policy", "ScoringPolicy"]

if TYPE_CHECKING:
    Policy = ScoringPolicy
else:
    Policy = SinglePolicy | Mix
"""What `scorer.policy` accepts."""
