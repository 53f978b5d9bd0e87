"""Uses what docs/extending.md adds to the product. It runs in its own process, with the extended copy on PYTHONPATH.

`extended_parts.py FUNCTION` prints what the function returns, as JSON.
"""

import asyncio
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import yaml
from builders import NOW
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

import equipoise.contracts
from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.main import main
from equipoise.cli.service_settings import AllSettings
from equipoise.cli.views.rows import NodeRow
from equipoise.cli.views.terminal.screen_text import NODE_COLUMNS, node_cells
from equipoise.contracts.bus.subjects import eviction_outcome
from equipoise.contracts.messages.eviction import EVICTION_OUTCOME
from equipoise.contracts.messages.example import POD
from equipoise.runtime.bus.permissions import permissions_of
from equipoise.runtime.configuration import Configuration, Logging, Shared
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock

COPY = next(Path(path).parents[4] for path in equipoise.contracts.__path__)


def check() -> dict[str, Any]:
    """State, subject and fix of the findings, by the level of the logs."""

    def findings(level: Any) -> list[list[str]]:
        settings = AllSettings(shared=Shared(logging=Logging(level=level)))
        environment = Environment(
            settings=settings, clock=ManualClock(NOW), kube=KubeError(0, "", "there is no API server")
        )
        return [[each.state, each.subject, each.fix] for each in asyncio.run(CHECKS["logs"](environment))]

    return {level: findings(level) for level in ("debug", "info")}


def column() -> dict[str, Any]:
    """The numbers of the columns in Python and in JavaScript, and a row as it is sent."""
    fields = [field.name for field in msgspec.structs.fields(NodeRow)]
    source = (COPY / "libs" / "cli" / "page" / "src" / "model.js").read_text()
    [constants] = re.findall(r"^export const (NODE = 0.*);$", source, re.MULTILINE)
    rows = [
        NodeRow("node-a"),
        msgspec.convert(["node-a", *[None] * 2, "", *[None] * 4, "", "", {}, "", False], NodeRow),
    ]
    return {
        "numbers": {name: number for number, name in enumerate(fields)},
        "constants": {name.lower(): int(number) for name, number in re.findall(r"(\w+) = (\d+)", constants)},
        "cells": [node_cells(row)[NODE_COLUMNS.index("ready")] for row in rows],
        "row": msgspec.to_builtins(rows[1]),
    }


def service() -> dict[str, Any]:
    """What the auditor counts, and what the tables of the product contain of it."""
    permissions = permissions_of("auditor")  # type: ignore[arg-type]  # in the copy it is a user
    defaults = yaml.safe_load(CliRunner().invoke(main, ["config", "defaults"], catch_exceptions=False).stdout)
    return {
        "counted": asyncio.run(_counted()),
        "defaults": defaults["auditor"],
        "publishes": sorted(subject for subject in permissions.publish if "auditor" in subject),
        "subscribes": "equipoise.eviction.outcome.*.*" in permissions.subscribe,
        "command": "auditor" in CliRunner().invoke(main, ["run", "--help"], catch_exceptions=False).stdout,
    }


async def _counted() -> float | None:
    """The counter of the auditor after one outcome."""
    assert import_module("equipoise.auditor.__main__").main
    settings = import_module("equipoise.auditor.settings").AuditorSettings()
    clock, metrics = ManualClock(NOW), CollectorRegistry()
    bus = MemoryBus(clock)
    runtime = Runtime(
        configuration=Configuration(shared=Shared(), own=settings, hash=""),
        message_bus=bus,
        clock=clock,
        health=Health(configuration_hash="", metrics=metrics),
        metrics=metrics,
        identity="auditor-1",
    )
    await import_module("equipoise.auditor.service").Auditor(runtime).attach()
    await bus.publish(eviction_outcome("shop", POD), EVICTION_OUTCOME)
    await bus.settled()
    return metrics.get_sample_value("equipoise_auditor_outcomes_total", {"outcome": EVICTION_OUTCOME.outcome})


if __name__ == "__main__":
    print(json.dumps({"check": check, "column": column, "service": service}[sys.argv[1]]()))
