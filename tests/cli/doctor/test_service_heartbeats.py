"""Several checks of `doctor` use the heartbeats of the services."""

import asyncio
from typing import Any

import pytest

from equipoise.cli.doctor import service_heartbeats as module
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.messages.health import HEARTBEAT, Heartbeat
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import SystemClock


async def test_checks_that_run_at_once_wait_for_the_heartbeats_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for services that are not there takes seconds."""
    reads: list[str | None] = []

    async def read(*_: Any, user: str | None = None) -> list[Heartbeat]:
        reads.append(user)
        await asyncio.sleep(0)
        return [HEARTBEAT]

    monkeypatch.setattr(module, "read_heartbeats", read)
    no_cluster = KubeError(0, "NoCluster", "")
    environment = Environment(settings=AllSettings(), clock=SystemClock(), kube=no_cluster)

    results = await asyncio.gather(*(module.service_heartbeats(environment) for _ in range(3)))

    assert results == [[HEARTBEAT]] * 3
    assert len(reads) == 1
