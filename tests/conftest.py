"""Real clusters for all tests, and two lanes: tests that need a cluster are marked, and run beside the others."""

import os
import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import structlog
from child_signals import stop_ignoring_signals
from cluster_fixtures import helm_program, mutating_policies, start_cluster, testbed_binaries
from hypothesis import settings
from lanes import FIRST_WORKER, WORKER, Lanes, send_units
from programs import program

from equipoise.contracts.kubernetes.supported_versions import minor_versions
from equipoise.testbed.binaries.build import ACTIONLINT, HELM, KUBECONFORM, PROMTOOL, Module, build

__all__ = ["helm_program", "mutating_policies", "start_cluster", "testbed_binaries"]

PROGRAMS = {testbed_binaries.__name__, helm_program.__name__}

settings.register_profile("ci", settings.get_profile("ci"), max_examples=50)
"""The same examples in every run; `pytest --hypothesis-profile=default` looks for new ones, and for twice as many."""

settings.register_profile("default", settings.get_profile("default"), deadline=None)
"""The machine may freeze: an example that takes long is no failure."""

LONG = 5.0
"""Seconds: a test that takes longer states in its docstring why it takes seconds or minutes."""

UNEXPLAINED = "seconds without a reason"

STATES_WHY = re.compile(r"\b[Tt]akes\b[^.]*\b(?:seconds|minutes)\b")

CURRENT_TEST = pytest.StashKey[pytest.Item]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubernetes",
        choices=minor_versions(),
        default="",
        help="minor version of the control plane that the tests start; default: the newest, or what is installed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that uses a program of the testbed, before `-m` is evaluated; leave out what is run weekly."""
    for item in items:
        if PROGRAMS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
    if "weekly" not in config.option.markexpr:
        weekly = [item for item in items if item.get_closest_marker("weekly")]
        config.hook.pytest_deselected(items=weekly)
        items[:] = [item for item in items if item not in weekly]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands configure the logs of their process: another test may expect lines of a lower level."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[CURRENT_TEST] = item


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Collection does not see a fixture that a test requests while it runs: such a test must have the mark itself."""
    test = request.config.stash[CURRENT_TEST]
    if fixturedef.argname == testbed_binaries.__name__ and test.get_closest_marker("cluster") is None:
        pytest.fail(f"mark {test.nodeid} with pytest.mark.cluster, for example at the parameter of its fixture")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    if any(item.get_closest_marker("cluster") for item in session.items) and not session.config.option.collectonly:
        _build(session.config)
    if WORKER == FIRST_WORKER:
        send_units(session.items, os.environ["PYTEST_XDIST_TESTRUNUID"])


def _build(config: pytest.Config, *others: Module) -> None:
    """The build of an empty cache takes longer than a test may, so it runs before the tests and shows its progress.

    `others` are programs without which their tests are skipped.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        build(kubernetes=config.option.kubernetes)
        for module in others:
            with suppress(pytest.skip.Exception):
                program(module)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.duration > LONG:
        function = getattr(item, "function", None)
        if not STATES_WHY.search(getattr(function, "__doc__", None) or ""):
            report.user_properties.append((UNEXPLAINED, report.duration))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """No failure: a busy machine slows any test."""
    reports = terminalreporter.getreports("passed")
    found = [(dict(report.user_properties).get(UNEXPLAINED, 0.0), report.nodeid) for report in reports]
    if slow := sorted((each for each in found if each[0]), reverse=True):
        terminalreporter.section(f"tests above {LONG:g} s whose docstring does not state why they take seconds")
        for seconds, nodeid in slow:
            terminalreporter.line(f"{seconds:6.1f} s  {nodeid}")


# pytest-xdist


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Nobody sees the output of a worker, and a build beside tests slows them: build before they start."""
    if config.option.markexpr != "not cluster":
        _build(config, PROMTOOL, HELM, KUBECONFORM, ACTIONLINT)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Tests with a cluster wait for real time; the first worker, which has none, uses what they leave of the CPU."""
    stop_ignoring_signals()
    if WORKER == FIRST_WORKER:
        os.nice(10)
