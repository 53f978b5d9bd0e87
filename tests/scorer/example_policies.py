"""An example of every scoring policy."""

from equipoise.contracts.load.metric_rule import MetricRule
from equipoise.scorer.decisions.policies import SINGLE_POLICIES, ScoringPolicy
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.rules import MetricRules, Preference
from equipoise.scorer.decisions.policies.water_level import WaterLevel

EXAMPLES: dict[str, ScoringPolicy] = {
    "mix": Mix(parts=(MixPart(policy=WaterLevel(), weight=2.0), MixPart(policy=ProfilePolicy()))),
    "rules": MetricRules(
        avoid=(MetricRule(metric="memory", operator="GreaterThan", target=90),), prefer=Preference(metric="cpu")
    ),
    **{name: kind() for name, kind in SINGLE_POLICIES.items() if name != "rules"},
}
