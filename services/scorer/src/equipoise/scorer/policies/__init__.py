"""How nodes are scored. One file per policy; a policy's fields are its settings."""

from equipoise.scorer.policies.mix import Mix
from equipoise.scorer.policies.policy import ScoringPolicy
from equipoise.scorer.policies.single import SINGLE, Single

__all__ = ["POLICIES", "Policy", "ScoringPolicy"]

POLICIES: dict[str, type[ScoringPolicy]] = {**SINGLE, "mix": Mix}

Policy = Single | Mix
"""What the configuration accepts: every policy of the table, told apart by its `name`."""
