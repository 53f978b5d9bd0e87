"""A plugin of a user in replays, and what it does wrong."""

import re
from pathlib import Path

import msgspec
import pytest
from lab.traces import a_trace

from equipoise.lab.compare import ComparisonRequest, check_plugins, plans
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.report.table import plugin_problems
from equipoise.lab.results import STOCK, Run, RunFigures
from equipoise.scheduling.settings.document import InvalidConfiguration

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "scheduling.md"
BUSY, IDLE = (1_500.0,) * 96, (50.0,) * 96

PLUGINS = """
import time

class Last:
    name = "Last"
    def score(self, state, pod, snapshot, rows):
        return 100 * (rows == rows.max())

class Raises:
    name = "Raises"
    def filter_node(self, state, pod, snapshot, row):
        return 1 / 0

class NotANumber:
    name = "NotANumber"
    def score_node(self, state, pod, snapshot, row):
        return float("nan")

class OnceOnly(NotANumber):
    name = "OnceOnly"
    failed = False
    def score_node(self, state, pod, snapshot, row):
        if self.failed:
            return 0
        self.failed = True
        return float("nan")

class Slow:
    name = "Slow"
    slept = False
    def score(self, state, pod, snapshot, rows):
        if not self.slept:
            self.slept = True
            time.sleep(1.01)
        return 0 * rows

class profile(Last):
    name = "profile"

class Unmade(Last):
    name = "Unmade"
    def __init__(self):
        raise OSError("no file")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "some_plugins.py"
    found.write_text(PLUGINS)
    return found


def replayed(place: str, weight: int = 1) -> Run:
    """Three pods on four nodes."""
    trace = a_trace(curves=(BUSY,), replicas=(3,))
    return Replay(trace, ReplayPlan(scenario="fresh", policy="own", plugin=place, plugin_weight=weight)).run()


def on_nodes(run: Run) -> dict[str, float]:
    """Pods by node."""
    return {
        name: round(float(loads.mean()) * 80.0 / 1_500.0)
        for name, loads in zip(run.node_names, run.after, strict=True)
        if loads.any()
    }


def test_the_scores_of_a_plugin_count_with_their_weight(file: Path) -> None:
    """With a high weight, all pods run on the last node; with 1, kube-scheduler spreads the second pod."""
    heavy, light = (on_nodes(replayed(f"{file}:Last", weight)) for weight in (20, 1))

    assert [3] == list(heavy.values())
    assert [1, 1, 1] == list(light.values())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Raises", "plugin Raises failed in filter: ZeroDivisionError: division by zero"),
        ("NotANumber", "plugin NotANumber failed in score: nan is not a number"),
    ],
)
def test_pods_of_a_plugin_that_fails_remain_pending(file: Path, name: str, problem: str) -> None:
    """They are tried again, and every attempt is counted."""
    figures = replayed(f"{file}:{name}").figures

    assert 3 == figures.unplaced
    assert [problem] == list(figures.plugin_problems)
    assert figures.plugin_problems[problem] > 3


def test_a_pod_is_placed_once_the_plugin_does_not_fail(file: Path) -> None:
    figures = replayed(f"{file}:OnceOnly").figures

    assert 0 == figures.unplaced
    assert {"plugin OnceOnly failed in score: nan is not a number": 1} == figures.plugin_problems


def test_a_slow_plugin_is_named_and_its_pods_are_placed(file: Path) -> None:
    figures = replayed(f"{file}:Slow").figures

    assert 0 == figures.unplaced
    assert {"plugin Slow takes more than 1 s in score": 1} == figures.plugin_problems


def test_each_plugin_is_compared_on_its_own(file: Path) -> None:
    request = ComparisonRequest(
        scenarios=("fresh",),
        policies=(STOCK,),
        plugins=(f"{file}:Last", f"{file}:Slow"),
        plugin_weight=7,
        descheduler=(False,),
    )

    found = [(plan.policy, plan.plugin, plan.placement) for plan in plans(request, Settings())]

    places = [("Last", f"{file}:Last", "none"), ("Slow", f"{file}:Slow", "none")]
    assert [(STOCK, "", "none"), *places] == found
    assert {7} == {plan.plugin_weight for plan in plans(request, Settings())}


@pytest.mark.parametrize(
    ("name", "why"), [("profile", "is the name of a policy"), ("Unmade", "OSError: no file"), ("Nothing", "no class")]
)
def test_a_plugin_that_cannot_be_used_is_refused_before_anything_is_replayed(file: Path, name: str, why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=why):
        check_plugins(plans(ComparisonRequest(plugins=(f"{file}:{name}",)), Settings()))


def test_problems_are_summed_over_the_orders_of_arrivals() -> None:
    figures = replayed("").figures

    def with_problem(seed: int) -> RunFigures:
        return msgspec.structs.replace(figures, arrival_seed=seed, plugin_problems={"plugin A failed": 600})

    assert ["fresh: plugin A failed (1,200 attempts)"] == plugin_problems([with_problem(1), with_problem(2), figures])


def test_the_plugin_of_the_tutorial_prefers_nodes_with_few_pods_for_their_cores(tmp_path: Path) -> None:
    """Of a node with twice the cores, it accepts twice the pods, although they request half of the small node."""
    [source] = re.findall(r"```python\n(class FewestPods:.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    place = tmp_path / "fewest_pods.py"
    place.write_text(source)
    trace = a_trace(nodes=2, curves=(BUSY,), replicas=(9,), request_cpu_milli=100)
    small = msgspec.structs.replace(trace.nodes[0], cpu_milli=4_000)
    trace = msgspec.structs.replace(trace, nodes=(small, trace.nodes[1]))
    plan = ReplayPlan(scenario="fresh", policy="own", plugin=f"{place}:FewestPods", plugin_weight=20)

    run = Replay(trace, plan).run()

    pods = [
        round(float(loads.mean()) / 100.0 * cores / 1_500.0)
        for loads, cores in zip(sorted(run.after, key=lambda loads: -loads.mean()), (4_000, 8_000), strict=True)
    ]
    assert {} == run.figures.plugin_problems
    assert [3, 6] == sorted(pods)
