"""The table of scoring policies. To add a policy, write its file and add its class to SINGLE_POLICIES."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from equipoise.scorer.decisions.policies.dynamic import Dynamic
from equipoise.scorer.decisions.policies.load_aware import LoadAware
from equipoise.scorer.decisions.policies.low_risk_overcommit import LowRiskOvercommit
from equipoise.scorer.decisions.policies.peaks import Peaks
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.pressure import PressurePolicy
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.decisions.policies.rules import MetricRules
from equipoise.scorer.decisions.policies.target_load_packing import TargetLoadPacking
from equipoise.scorer.decisions.policies.water_level import WaterLevel

SINGLE_POLICIES: dict[str, type[ScoringPolicy]] = {
    policy.policy_name(): policy
    for policy in (
        WaterLevel,
        ProfilePolicy,
        Dynamic,
        LoadAware,
        TargetLoadPacking,
        RiskBalancing,
        LowRiskOvercommit,
        Peaks,
        MetricRules,
        PressurePolicy,
    )
}

if TYPE_CHECKING:
    SinglePolicy = ScoringPolicy
else:
    SinglePolicy = reduce(or_, SINGLE_POLICIES.values())
"""The type of a setting that may be any policy of the table. The setting selects the policy by its `name`."""
