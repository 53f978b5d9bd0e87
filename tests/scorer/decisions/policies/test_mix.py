"""mix: the weighted mean of other policies."""

import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.configuration.errors import convert
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.settings import ScorerSettings

NODES = node_loads(evenly([10.0, 40.0, 70.0, np.nan, 99.5]))


def test_scores_are_the_weighted_mean_of_the_parts() -> None:
    """Three to one."""
    demand = a_demand(1.0)
    mix = Mix(parts=(MixPart(policy=WaterLevel(), weight=3.0), MixPart(policy=ProfilePolicy(), weight=1.0)))
    expected = (3 * WaterLevel().score(NODES, demand) + ProfilePolicy().score(NODES, demand)) / 4

    assert np.allclose(mix.score(NODES, demand)[:3], expected[:3])


def test_a_node_that_scores_0_in_one_part_scores_0() -> None:
    """Unknown or overfull for one part is enough."""
    mix = Mix(parts=(MixPart(policy=WaterLevel()), MixPart(policy=ProfilePolicy())))

    assert mix.score(NODES, a_demand(1.0))[3:].tolist() == [0.0, 0.0]


def test_it_needs_the_inputs_of_all_its_parts() -> None:
    """Windows, daily loads, level."""
    mix = Mix(parts=(MixPart(policy=ProfilePolicy()), MixPart(policy=WaterLevel(window_weights={"1h": 1.0}))))

    assert mix.uses_daily_loads
    assert mix.windows == ("1h",)
    assert mix.level(NODES) != Resources()


def test_it_is_configured_as_a_list_of_parts() -> None:
    """An empty list is refused."""
    text = {"policy": {"name": "mix", "parts": [{"policy": {"name": "profile"}, "weight": 2}]}}

    assert convert(text, ScorerSettings, "scorer").policy == Mix(parts=(MixPart(policy=ProfilePolicy(), weight=2.0),))
    with pytest.raises(ConfigurationError, match="parts"):
        convert({"policy": {"name": "mix", "parts": []}}, ScorerSettings, "scorer")
