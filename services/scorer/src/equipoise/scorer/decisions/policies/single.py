"""The table of policies that score by themselves: a new one is its file and a line here, twice."""

from equipoise.scorer.decisions.policies.dynamic import Dynamic
from equipoise.scorer.decisions.policies.load_aware import LoadAware
from equipoise.scorer.decisions.policies.low_risk_overcommit import LowRiskOvercommit
from equipoise.scorer.decisions.policies.peaks import Peaks
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.profile import Profile
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.decisions.policies.target_load_packing import TargetLoadPacking
from equipoise.scorer.decisions.policies.water_level import WaterLevel

SINGLE: dict[str, type[ScoringPolicy]] = {
    "water_level": WaterLevel,
    "profile": Profile,
    "dynamic": Dynamic,
    "load_aware": LoadAware,
    "target_load_packing": TargetLoadPacking,
    "risk_balancing": RiskBalancing,
    "low_risk_overcommit": LowRiskOvercommit,
    "peaks": Peaks,
}

Single = WaterLevel | Profile | Dynamic | LoadAware | TargetLoadPacking | RiskBalancing | LowRiskOvercommit | Peaks
