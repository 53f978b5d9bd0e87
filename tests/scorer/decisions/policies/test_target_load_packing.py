"""The target_load_packing policy; tests/peers/test_trimaran.py has Trimaran's cases."""

import msgspec
import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.policies.target_load_packing import TargetLoadPacking


@pytest.mark.parametrize("formula", ["published", "original"])
@pytest.mark.parametrize(
    ("percent", "published", "original"),
    [(0, 10, 10), (5, 55, 55), (10, 100, 100), (11, 9.889, 49.444), (55, 5, 25), (100, 0, 0), (101, 0, 0)],
)
def test_the_original_formula_has_50_above_the_target(
    formula: str, percent: float, published: float, original: float
) -> None:
    """With a target of 10 %, a node just above it gets more than an idle one: what the published formula repaired."""
    policy = TargetLoadPacking(target_utilization=10, formula=formula)  # type: ignore[arg-type]

    found = policy.score(node_loads(evenly([percent])), a_demand(0.0))

    assert found[0] == pytest.approx(published if formula == "published" else original, abs=1e-3)


def test_only_cpu_of_its_own_window_counts() -> None:
    """Other windows and memory change nothing; without its window, every node is unknown."""
    load = evenly([20])
    load[:, [0, 2, 3], :], load[:, 1, 1] = 0.9, 0.9

    assert TargetLoadPacking().score(node_loads(load), a_demand(0.0))[0] == pytest.approx(70.0)
    assert TargetLoadPacking(window="1h").score(node_loads(load), a_demand(0.0))[0] == pytest.approx(40 / 6)
    assert TargetLoadPacking(window="7d").score(node_loads(load), a_demand(0.0)).tolist() == [0.0]
    load[:, 1, 0] = np.nan
    assert TargetLoadPacking().score(node_loads(load), a_demand(0.0)).tolist() == [0.0]


def test_the_level_is_the_target() -> None:
    """For CPU only."""
    assert TargetLoadPacking(target_utilization=55).level(node_loads(evenly([20]))) == Resources(cpu=0.55)
    assert TargetLoadPacking(window="1h").windows == ("1h",)


class _Holder(Section, frozen=True, kw_only=True):
    policy: TargetLoadPacking = TargetLoadPacking()


def test_the_setting_has_trimarans_name() -> None:
    """`targetUtilization` is a percentage."""
    document = {"policy": {"name": "target_load_packing", "targetUtilization": 60, "formula": "original"}}

    assert msgspec.convert(document, _Holder).policy == TargetLoadPacking(target_utilization=60, formula="original")


@pytest.mark.parametrize("fault", [{"targetUtilization": 0}, {"targetUtilization": 100}, {"formula": "repaired"}])
def test_targets_of_0_and_100_are_refused(fault: dict[str, object]) -> None:
    """The formula divides by zero there; Trimaran silently replaces 0 with 40."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": fault}, _Holder)
