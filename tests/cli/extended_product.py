"""Uses what docs/extending.md adds to the product. It runs in its own process, with the extended copy on PYTHONPATH.

Prints a JSON object: by name of the function the values that it returns, or the text of its error.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from binder.ledgers import an_entry, an_eviction
from builders import NOW, a_workload
from click.testing import CliRunner
from descheduler.cluster_states import a_cluster, a_loaded_node, a_node, changed_node
from scorer.clusters import a_demand, evenly, node_loads

import equipoise.contracts
from equipoise.binder.decisions.limits import Limits
from equipoise.binder.state.ledger import LedgerView
from equipoise.cli.main import main
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries
from equipoise.collector.decisions.query import MetricQuery
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import open_source
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.descheduler.decisions.strategies import STRATEGIES
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.bus.permissions import permissions_of
from equipoise.runtime.configuration import validate_document
from equipoise.runtime.configuration.errors import convert
from equipoise.runtime.kubernetes.client import Kube
from equipoise.scorer.settings import ScorerSettings
from equipoise.testbed.memory.clock import ManualClock

QUERY = MetricQuery(subject="node", resource="cpu", aggregate="mean", length=300.0, at=NOW, step=15.0)


def copy() -> list[str]:
    """Where the product is imported from."""
    return [str(path) for path in equipoise.contracts.__path__]


def configuration(section: str, settings: dict[str, Any]) -> None:
    """Raises ConfigurationError as `equipoise config validate` does."""
    head = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"}
    validate_document(json.dumps({**head, section: settings}), SERVICE_SETTINGS)


def command(*arguments: str) -> str:
    return CliRunner().invoke(main, arguments, catch_exceptions=False).stdout


def policy() -> Sequence[float]:
    """The scores of an idle node, a loaded one and one with unknown load."""
    configuration("scorer", {"policy": {"name": "least_used"}})
    settings = convert({"policy": {"name": "least_used"}}, ScorerSettings, "scorer")
    nodes = node_loads(evenly([20.0, 60.0, np.nan]))
    return cast(list[float], settings.policy.score(nodes, a_demand(0.0)).tolist())


def strategy() -> dict[str, Any]:
    """The moves from a node with the label."""
    entry = {"name": "leave_labeled", "label": "retire"}
    configuration("descheduler", {"strategies": [entry]})
    (chosen,) = convert({"strategies": [entry]}, DeschedulerSettings, "descheduler").strategies
    node = a_loaded_node("node-a", 0.2, pieces=2)
    cluster = a_cluster(changed_node(node, labels={"retire": ""}), a_node("node-b"))
    plan = chosen.plan(cluster, {"node-a"})
    states = {each.node: each.state for each in chosen.classify(cluster)}
    moves = [[move.pod.name, move.target, move.reason] for move in plan.moves]
    return {"registered": "leave_labeled" in STRATEGIES, "states": states, "moves": moves}


def limit() -> str:
    """The refusal of a fourth eviction from a node."""
    configuration("binder", {"limits": {"evictionsPerNode": {"max": 3}}})
    entries = [an_entry(f"pod-{each}", workload=a_workload(f"w{each}"), namespace=f"ns-{each}") for each in range(3)]
    view = LedgerView(now=NOW + 11, entries=tuple(entries), migration_timeout=10.0, mean_rate=1.0)
    refusal = Limits().refusal(an_eviction(workload=a_workload("db"), namespace="bank", cluster_pods=10_000), view)
    return "" if refusal is None else refusal.detail


def profile() -> dict[str, str | None]:
    """The PromQL for the mean CPU usage of nodes and of pods."""
    configuration("collector", {"prometheus": {"profile": "node-agent"}})
    cpu = PROFILES["node-agent"](CustomQueries()).cpu
    return {
        subject: cpu[subject].promql(msgspec.structs.replace(QUERY, subject=subject), {"cluster": "a"})
        for subject in cpu
    }


def source() -> list[Any]:
    """Node and cores of each sample."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "usage.json"
        path.write_text('{"node-a": {"cpu": 2.5, "memory": 8e9}}')
        section = {"source": "usage-file", "usageFile": {"path": str(path)}}
        configuration("collector", section)
        samples = asyncio.run(_samples(convert(section, CollectorSettings, "collector")))
    return samples


async def _samples(settings: CollectorSettings) -> list[Any]:
    opened = open_source(settings, LoadSettings(), ManualClock(NOW), cast(Kube, None))
    polling = asyncio.create_task(opened.run())
    at = await opened.time()
    samples = await opened.query(msgspec.structs.replace(QUERY, at=at))
    polling.cancel()
    opened.close()
    return [[sample.node, sample.value] for sample in samples]


def message() -> dict[str, Any]:
    """Its section of `equipoise events`, its channel of the AsyncAPI document, and who may publish it."""
    subject = "equipoise.decision.binder.*"
    return {
        "page": "## decision.binder\n" in (page := command("events")) and '"limit": "evictionsPerNamespace"' in page,
        "asyncapi": "LimitReached" in command("events", "-o", "asyncapi"),
        "publishers": [
            user
            for user in ("collector", "annotator", "scorer", "descheduler", "binder", "tap")
            if subject in permissions_of(user).publish
        ],
    }


def cli_command() -> dict[str, str]:
    """What the command prints, with and without --help."""
    return {"help": command("services", "--help"), "output": command("services"), "program": command("--help")}


def configuration_key() -> dict[str, Any]:
    """The key in the defaults and in the schema, and the settings with another value."""
    configuration("scorer", {"advice": {"minRegret": 20}})
    return {
        "defaults": "minRegret: 0" in command("config", "defaults"),
        "schema": "Points of regret below which" in command("config", "schema"),
        "value": msgspec.to_builtins(convert({"advice": {"minRegret": 20}}, ScorerSettings, "scorer").advice),
    }


def result_of(check: Callable[[], Any]) -> Any:
    """What a check returns. An error of one check must not hide the results of the others."""
    try:
        return check()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Passed:
    """The tests that passed, by their ids."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.ids.append(report.nodeid)


def laws() -> dict[str, Any]:
    """The tests of the rules, for the new entry of each table."""
    passed, tests = Passed(), Path(__file__).parents[1]
    names = {
        "scorer/decisions/test_laws.py": "least_used",
        "descheduler/decisions/strategies/test_laws.py": f"strategy{len(STRATEGIES) - 1}",
        "binder/decisions/limits/test_laws.py": "evictionsPerNode",
        "collector/decisions/profiles/test_profiles.py": "node-agent",
    }
    files = [str(tests / file) for file in names]
    with redirect_stdout(sys.stderr):
        code = pytest.main(["-q", "-p", "no:cacheprovider", *files, "-k", " or ".join(names.values())], [passed])
    found = [file for file, name in names.items() if any(file in each and name in each for each in passed.ids)]
    return {"code": int(code), "files": found}


CHECKS: tuple[Callable[[], Any], ...] = (
    copy, policy, strategy, limit, profile, source, message, cli_command, configuration_key,
    laws,
)  # fmt: skip

if __name__ == "__main__":
    print(json.dumps({check.__name__: result_of(check) for check in CHECKS}))
