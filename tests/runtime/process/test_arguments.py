"""The command line of a service."""

import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from equipoise.contracts.bus.subjects import ALL_SERVICES


def run(service: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With an unusable configuration: a service that starts ends with an error."""
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", f"equipoise.{service}", *arguments],
        env={**os.environ, "EQUIPOISE_CONFIG": "/nowhere.yaml"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize("service", ALL_SERVICES)
def test_a_service_prints_its_version_without_importing_what_it_works_with(service: str) -> None:
    """In a tenth of a second instead of one."""
    result = run(service, "--version")

    assert (0, f"equipoise-{service} {version(f'equipoise-{service}')}\n") == (result.returncode, result.stdout)
    imported = set(re.findall(r"\| +(\w+)(?:\.\w+)*$", result.stderr, re.MULTILINE))
    assert imported >= {"argparse", "equipoise"}
    assert set() == imported & {"aiohttp", "asyncio", "kubernetes_asyncio", "msgspec", "nats", "numpy", "structlog"}


@pytest.mark.parametrize("service", ALL_SERVICES)
def test_the_help_of_a_service_states_its_subscriptions_and_variables(service: str) -> None:
    shown = run(service, "--help")

    assert shown.returncode == 0
    for part in (f"usage: python -m equipoise.{service} ", "Subscribes to: ", "API access: ", "EQUIPOISE_CONFIG "):
        assert part in shown.stdout


def test_a_service_refuses_arguments() -> None:
    """A user who passes an option must not get a service that ignores it."""
    result = run("binder", "--config", "equipoise.yaml")

    assert result.returncode == 2
    assert "python -m equipoise.binder: error: unrecognized arguments: --config equipoise.yaml" in result.stderr
