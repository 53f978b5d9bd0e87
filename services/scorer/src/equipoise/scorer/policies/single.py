"""The table of policies that score by themselves: a new one is its file and a line here, twice."""

from equipoise.scorer.policies.dynamic import Dynamic
from equipoise.scorer.policies.load_aware import LoadAware
from equipoise.scorer.policies.low_risk_overcommit import LowRiskOvercommit
from equipoise.scorer.policies.peaks import Peaks
from equipoise.scorer.policies.policy import ScoringPolicy
from equipoise.scorer.policies.profile import Profile
from equipoise.scorer.policies.risk_balancing import RiskBalancing
from equipoise.scorer.policies.target_load_packing import TargetLoadPacking
from equipoise.scorer.policies.water_level import WaterLevel

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
