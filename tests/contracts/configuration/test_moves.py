"""How far Equipoise is trusted to move pods: a level permits what lower ones do, and no other setting permits more."""

from typing import get_args

import msgspec
import pytest
from contracts.eviction.test_surge import a_budget, a_surge_candidate, a_surging_deployment, a_surging_pod
from hypothesis import given
from hypothesis import strategies as st

from equipoise.cli.service_settings import SERVICE_SETTINGS, all_settings
from equipoise.contracts.configuration.moves import (
    LEVELS,
    LOWEST_LEVELS,
    DeletionCosts,
    MovesLevel,
    deletion_costs,
    gap_refusal,
    moves_in_effect,
    permits,
    strategy_refusal,
    surge_mode,
)
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.configuration.surge import SurgeMode
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.eviction.surge import SURGE_OPT_OUT, SurgeCandidate, surge_decision
from equipoise.descheduler.decisions.strategies import STRATEGIES
from equipoise.runtime.configuration import ConfigurationError, validate_document

HEADER = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
SURGE_ORDER: tuple[SurgeMode, ...] = get_args(SurgeMode)
COSTS: tuple[DeletionCosts, ...] = get_args(DeletionCosts)
levels = st.sampled_from(LEVELS)
any_level = st.none() | levels
modes = st.none() | st.sampled_from(SURGE_ORDER)
costs = st.none() | st.sampled_from(COSTS)
names = st.lists(st.sampled_from([*STRATEGIES, "another"]), unique=True, min_size=1)


def rules(level: MovesLevel | None, surge: SurgeMode = "none") -> Rules:
    return Rules(
        protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system", level=level, surge=surge
    )


@given(levels, levels)
def test_a_level_includes_those_before_it(one: MovesLevel, other: MovesLevel) -> None:
    assert permits(one, other) == (LEVELS.index(other) <= LEVELS.index(one))
    assert permits(None, other)


@given(modes, costs)
def test_without_a_level_settings_have_the_meaning_that_they_had_before_there_were_levels(
    mode: SurgeMode | None, cost: DeletionCosts | None
) -> None:
    assert surge_mode(None, mode) == (mode or "none")
    assert deletion_costs(None, cost) == (cost or "none")
    assert not gap_refusal(None)
    assert not any(strategy_refusal(None, name) for name in STRATEGIES)


@given(levels, st.sampled_from(SURGE_ORDER), st.sampled_from(COSTS))
def test_a_level_never_permits_more_than_a_setting(level: MovesLevel, mode: SurgeMode, cost: DeletionCosts) -> None:
    assert surge_mode(level, mode) in ("none", mode)
    assert deletion_costs(level, cost) in ("none", cost)


@given(st.lists(levels, min_size=2, max_size=2), modes, costs)
def test_a_higher_level_never_permits_less(
    two: list[MovesLevel], mode: SurgeMode | None, cost: DeletionCosts | None
) -> None:
    lower, higher = sorted(two, key=LEVELS.index)
    assert SURGE_ORDER.index(surge_mode(lower, mode)) <= SURGE_ORDER.index(surge_mode(higher, mode))
    assert deletion_costs(lower, cost) in ("none", deletion_costs(higher, cost))
    assert not (gap_refusal(higher) and not gap_refusal(lower))
    for name in (*STRATEGIES, "another"):
        assert not (strategy_refusal(higher, name) and not strategy_refusal(lower, name))


def test_levels_permit_what_the_documentation_says() -> None:
    permitted = {
        level: (
            deletion_costs(level, None) != "none",
            surge_mode(level, None) != "none",
            not gap_refusal(level),
            [name for name in ("low_node_load", "level_day", "bin_pack") if not strategy_refusal(level, name)],
        )
        for level in LEVELS
    }
    assert permitted == {
        "off": (False, False, False, []),
        "scaleDowns": (True, False, False, []),
        "withoutGap": (True, True, False, ["low_node_load"]),
        "hotNodes": (True, True, True, ["low_node_load"]),
        "levelDay": (True, True, True, ["low_node_load", "level_day", "bin_pack"]),
    }


def test_strategies_with_a_level_of_their_own_exist() -> None:
    """All others need the highest one."""
    assert LOWEST_LEVELS.keys() <= STRATEGIES.keys()


BLOCKED = a_budget(match_labels={"app": "web"})
OPTED_OUT = a_surging_pod(metadata={"annotations": {SURGE_OPT_OUT: "false"}})
THREE = a_surge_candidate(deployment=a_surging_deployment(3))


@pytest.mark.parametrize(
    ("level", "surge", "candidate", "why", "without_gap"),
    [
        ("withoutGap", "always", THREE, "", True),
        ("withoutGap", "always", a_surge_candidate(OPTED_OUT), "cannot be moved without a gap: annotation", False),
        ("withoutGap", "blocked", THREE, "no eviction before the replacement is ready", False),
        ("withoutGap", "blocked", a_surge_candidate(budgets=[BLOCKED]), "", True),
        ("hotNodes", "always", a_surge_candidate(OPTED_OUT), "", False),
        ("hotNodes", "blocked", THREE, "", False),
        (None, "always", a_surge_candidate(OPTED_OUT), "", False),
        (None, "blocked", THREE, "", False),
    ],
)
def test_below_hot_nodes_no_pod_is_evicted_before_its_replacement_is_ready(
    level: MovesLevel | None, surge: SurgeMode, candidate: SurgeCandidate, why: str, without_gap: bool
) -> None:
    """Although nothing protects it; the reason names why it cannot be moved otherwise."""
    found, kept = surge_decision(candidate, "", rules(level, surge))
    assert why in found
    assert bool(found) == bool(why)
    assert kept == without_gap


@pytest.mark.parametrize(
    ("level", "evict", "surge", "cost", "strategies", "text"),
    [
        (None, False, None, None, ["low_node_load"],
         "off (moves.level is not set; binder.evict is false: evictions are dry runs)"),
        (None, True, None, None, ["low_node_load"], "hotNodes (moves.level is not set)"),
        (None, True, "always", None, ["low_node_load", "level_day"], "levelDay (moves.level is not set)"),
        (None, False, None, "hottestNodes", ["low_node_load"],
         "scaleDowns (moves.level is not set; binder.evict is false: evictions are dry runs)"),
        ("off", True, "always", "hottestNodes", ["level_day"], "off (moves.level is off)"),
        ("withoutGap", True, None, None, ["low_node_load"], "withoutGap (moves.level is withoutGap)"),
        ("withoutGap", True, "none", None, ["low_node_load"],
         "scaleDowns (moves.level is withoutGap; surge.mode is none)"),
        ("hotNodes", True, None, "none", ["low_node_load", "level_day"],
         "hotNodes (moves.level is hotNodes; annotator.deletionCosts is none)"),
        ("levelDay", True, None, None, ["low_node_load"],
         "hotNodes (moves.level is levelDay; descheduler.strategies does not list level_day)"),
        ("levelDay", False, None, None, ["low_node_load", "level_day"],
         "scaleDowns (moves.level is levelDay; binder.evict is false: evictions are dry runs)"),
    ],
)  # fmt: skip
def test_the_level_in_effect_states_what_holds_it_lower(
    level: MovesLevel | None,
    evict: bool,
    surge: SurgeMode | None,
    cost: DeletionCosts | None,
    strategies: list[str],
    text: str,
) -> None:
    assert str(moves_in_effect(level, evict=evict, surge=surge, costs=cost, strategies=strategies)) == text


@given(any_level, st.booleans(), modes, costs, names, st.dictionaries(levels, st.just("k8s/surge is not applied")))
def test_the_level_in_effect_is_never_above_the_configured_one_and_has_reasons_if_it_is_lower(
    level: MovesLevel | None,
    evict: bool,
    mode: SurgeMode | None,
    cost: DeletionCosts | None,
    strategies: list[str],
    obstacles: dict[MovesLevel, str],
) -> None:
    found = moves_in_effect(level, evict=evict, surge=mode, costs=cost, strategies=strategies, obstacles=obstacles)
    assert permits(level, found.level)
    assert level in (None, found.level) or found.held
    assert evict or LEVELS.index(found.level) <= LEVELS.index("scaleDowns")


@pytest.mark.parametrize("level", [*LEVELS, "null", "false"])
def test_a_level_is_written_without_quotes(level: str) -> None:
    """Helm passes an `off` without quotes on as false, which is accepted."""
    text = f"{HEADER}moves: {{level: {level}}}"
    validate_document(text, SERVICE_SETTINGS)


@pytest.mark.parametrize("level", ["on", "true", "hotnodes", "[hotNodes]", "3"])
def test_another_level_is_refused_by_name(level: str) -> None:
    with pytest.raises(ConfigurationError, match=r"moves\.level: .* is not allowed"):
        validate_document(f"{HEADER}moves: {{level: {level}}}", SERVICE_SETTINGS)


def test_the_highest_level_chooses_both_strategies_unless_they_are_listed() -> None:
    def chosen(document: dict[str, object]) -> list[str]:
        settings = all_settings(document)
        strategies = settings.descheduler.chosen_strategies(settings.shared.moves.level)
        return [str(msgspec.to_builtins(each)["name"]) for each in strategies]

    assert chosen({}) == ["low_node_load"]
    assert chosen({"moves": {"level": "hotNodes"}}) == ["low_node_load"]
    assert chosen({"moves": {"level": "levelDay"}}) == ["low_node_load", "level_day"]
    only = {"descheduler": {"strategies": [{"name": "low_node_load"}]}}
    assert chosen({"moves": {"level": "levelDay"}} | only) == ["low_node_load"]


def test_a_strategy_that_the_level_chooses_conflicts_with_the_policy_as_a_listed_one_does() -> None:
    packing = {"scorer": {"policy": {"name": "target_load_packing"}}}
    all_settings(packing | {"moves": {"level": "hotNodes"}})
    with pytest.raises(ConfigurationError, match=r"descheduler\.strategies\[1\] levels them"):
        all_settings(packing | {"moves": {"level": "levelDay"}})
