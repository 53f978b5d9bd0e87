"""How nodes are scored. One file per policy; a policy's fields are its settings."""

from equipoise.scorer.decisions.policies.mix import Mix
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.single import SINGLE, Single

__all__ = ["POLICIES", "Policy", "ScoringPolicy", "name_of"]

POLICIES: dict[str, type[ScoringPolicy]] = {**SINGLE, "mix": Mix}

Policy = Single | Mix
"""What the configuration accepts: every policy of the table, told apart by its `name`."""


def name_of(policy: ScoringPolicy) -> str:
    """The name that a configuration calls it by."""
    return next(name for name, kind in POLICIES.items() if isinstance(policy, kind))
