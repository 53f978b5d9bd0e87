"""Compares policies on one trace."""

from collections.abc import Sequence

import msgspec

from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import GREEDY, STOCK, ForecastSource, PlacementMode, Run, Scenario
from equipoise.lab.scenarios import DEFAULT_SCENARIOS
from equipoise.lab.schedulers import scheduler_configuration
from equipoise.scheduling.plugin_loading import load_plugins
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.profile import build_frameworks
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.pressure import PressurePolicy
from equipoise.scorer.decisions.policies.rules import MetricRules
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

REFERENCES = (STOCK, GREEDY)


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare; by default every policy, and every scenario without an autoscaler."""

    scenarios: tuple[Scenario, ...] = DEFAULT_SCENARIOS
    policies: tuple[str, ...] = ()
    """Names of policies, STOCK or GREEDY. The configured policy keeps its settings. Empty: all."""

    placements: tuple[PlacementMode, ...] = ("extender",)
    """How the scores of policies reach kube-scheduler. `none` is STOCK, which is always included."""

    descheduler: tuple[bool, ...] = (False, True)
    arrivals: tuple[int, ...] = (1,)
    """Seeds of the order of arrivals."""

    plugins: tuple[str, ...] = ()
    """The plugins of a user, as `module:Class` or `file.py:Class`; each is compared on its own."""

    plugin_weight: int = 1
    weight: int = 5
    percentage_of_nodes_to_score: int = 0
    forecast: ForecastSource = "profile"


NOT_COMPARED = (PressurePolicy, MetricRules)
"""Policies that are only compared if they are named: traces have no pressure, and only the user has rules."""


def policies_of(names: Sequence[str], configured: ScoringPolicy) -> dict[str, ScoringPolicy | None]:
    """The policy of each name; the configured policy keeps its settings. Raises ValueError for an unknown name."""
    own = configured.policy_name()
    policies: dict[str, ScoringPolicy | None] = {}
    for name in names:
        if name in REFERENCES:
            policies[name] = None
        elif name == own:
            policies[name] = configured
        elif name in SINGLE_POLICIES:
            policies[name] = SINGLE_POLICIES[name]()
        else:
            raise ValueError(f"no such policy: {name} (there are {', '.join((*REFERENCES, *SINGLE_POLICIES))})")
    return policies


def plans(request: ComparisonRequest, settings: Settings) -> list[ReplayPlan]:
    """One plan per replay. STOCK without the descheduler is always included, as the baseline.

    The scenario `given` without the descheduler is the same for every policy and is replayed once. GREEDY is replayed
    for `fresh` only. Raises ValueError for an unknown policy, and InvalidConfiguration for a plugin that cannot be
    loaded.
    """
    own = settings.scorer.policy.policy_name()
    compared = [name for name, policy in SINGLE_POLICIES.items() if policy not in NOT_COMPARED]
    names = request.policies or (STOCK, GREEDY, *dict.fromkeys((*compared, own)))
    policies = {STOCK: None} | policies_of(names, settings.scorer.policy)
    plugins = _by_name(request.plugins)
    if taken := sorted(plugins.keys() & {GREEDY, STOCK, own, *SINGLE_POLICIES}):
        raise InvalidConfiguration([f"plugin {plugins[name]}: {name} is the name of a policy" for name in taken])
    policies |= dict.fromkeys(plugins)
    replay_plans = []
    for scenario in request.scenarios:
        arrivals = request.arrivals[:1] if scenario == "given" else request.arrivals
        for name, policy in policies.items():
            placements: list[PlacementMode] = ["none"]
            if policy is not None:
                placements = [placement for placement in request.placements if placement != "none"]
            for descheduler in sorted({False, *request.descheduler} if name == STOCK else request.descheduler):
                if name == GREEDY and (descheduler or scenario != "fresh"):
                    continue
                if scenario == "given" and not descheduler and name != STOCK:
                    continue
                replay_plans += [
                    ReplayPlan(
                        scenario=scenario,
                        policy=name,
                        scoring=policy,
                        plugin=plugins.get(name, ""),
                        plugin_weight=request.plugin_weight,
                        placement=placement,
                        descheduler=descheduler,
                        seed=seed,
                        weight=request.weight,
                        percentage_of_nodes_to_score=request.percentage_of_nodes_to_score,
                        forecast=request.forecast,
                        settings=settings,
                    )
                    for placement in placements
                    for seed in arrivals
                ]
    return replay_plans


def _by_name(plugins: Sequence[str]) -> dict[str, str]:
    """The given plugins by the name of their class."""
    return {name: plugin for plugin, name in zip(plugins, load_plugins(plugins), strict=True)}


def check_plugins(replays: Sequence[ReplayPlan]) -> None:
    """Create each plugin once, so that errors show before replays start. Raises InvalidConfiguration."""
    for plugin in dict.fromkeys(plan.plugin for plan in replays if plan.plugin):
        plugins = load_plugins([plugin])
        configuration = scheduler_configuration(dict.fromkeys(plugins, 1))
        build_frameworks(configuration, Handle(), plugins)


def with_baseline(runs: Sequence[Run]) -> list[Run]:
    """Sorted runs, each with the loads of the stock scheduler for the same order of arrivals."""
    stock = {_case(run): run for run in runs if run.figures.policy == STOCK and not run.figures.descheduler}
    ordered = sorted(runs, key=lambda run: (*_case(run), run.figures.policy, run.figures.descheduler))
    return [msgspec.structs.replace(run, before=stock[_case(run)].after) for run in ordered]


def _case(run: Run) -> tuple[str, int]:
    return run.figures.scenario, run.figures.arrival_seed
