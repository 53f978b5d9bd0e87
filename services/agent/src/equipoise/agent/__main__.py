"""`python -m equipoise.agent`: signals, a round each period, and a changed configuration.

The same process goes on after a change: a new one starts slowly on a node without idle CPU time, and its health port
would not answer meanwhile.

Exit codes: 0 stopped by a signal, 1 failed, 2 the configuration cannot be used.
"""

import sys

if __name__ == "__main__":
    # msgspec imports typing_extensions if it is installed, but does not need it. It takes a quarter of the memory.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]

import gc
import os
import resource
import signal
import time
from collections.abc import Mapping
from threading import Event
from typing import NoReturn

from equipoise.agent.service import Agent
from equipoise.agent.shell.api_server import AgentApi, RequestFailed
from equipoise.agent.shell.configuration import AgentConfiguration, ConfigurationFile, read_configuration
from equipoise.agent.shell.evictor import Evictor
from equipoise.agent.shell.health import AgentHealth, HealthServer
from equipoise.agent.shell.log import Log
from equipoise.agent.shell.metrics import Metrics
from equipoise.agent.shell.pod_watch import PodWatch, unreadable_text
from equipoise.agent.state.watched_pods import WatchedPods

STALLED_ROUNDS = 30
"""Periods without a round after which /healthz fails. At least 30 s, as a busy node may stop the agent for a while."""

CONFIGURATION_PERIOD = 5.0
"""Seconds between two checks of the configuration file."""


class AgentProgram:
    """One run with one configuration."""

    def __init__(self, configuration: AgentConfiguration, environment: Mapping[str, str]) -> None:
        """Raises ValueError or RequestFailed for settings that cannot be used."""
        settings = configuration.agent
        node = settings.node or environment.get("NODE_NAME", "")
        if not node:
            raise ValueError("agent.node is empty, and the environment variable NODE_NAME is missing")
        number = configuration.version
        console = configuration.log_format == "console" or (configuration.log_format == "auto" and sys.stderr.isatty())
        self.log = Log(time.time, console=console, level=configuration.log_level)  # noqa: TID251  no runtime here
        self.period = settings.period
        self.metrics = Metrics()
        self.metrics.set("equipoise_build_info", 1.0, service="agent", version=number, configuration=configuration.hash)
        self.health = AgentHealth(
            self.log,
            self.metrics,
            stalled_after=max(30.0, STALLED_ROUNDS * settings.period),
            monotonic=time.monotonic,
        )
        self.health.configuration = configuration.hash
        pods = WatchedPods()
        api = AgentApi(environment, configuration.service_account, number)
        self.watch = PodWatch(
            api, node, pods, monotonic=time.monotonic, jitter=lambda: os.urandom(1)[0] / 255
        )  # the module random takes more memory
        evictor = Evictor(api, self.log, self.metrics, evict=settings.evict, monotonic=time.monotonic)
        self.agent = Agent(settings, pods, evictor, self.health, self.metrics)
        self.server = HealthServer(settings.health, self.health, self.metrics, number)
        self.log.info("started", node=node, configuration=configuration.hash, evict=settings.evict)

    def run(self, stop: Event, file: ConfigurationFile) -> AgentConfiguration | None:
        """Runs until a signal and returns None, or returns the configuration to continue with."""
        self.watch.start()
        next_round_at = time.monotonic()
        checked_at = next_round_at
        while not stop.wait(max(next_round_at - time.monotonic(), 0.0)):
            now = time.monotonic()
            self.agent.round(now)
            self.health.round_done()
            self._report(now, time.monotonic() - now)
            next_round_at = max(next_round_at + self.period, now)
            if now - checked_at >= CONFIGURATION_PERIOD:
                checked_at = now
                if file.changed() and (changed := self._changed()) is not None:
                    return changed
        return None

    def _report(self, now: float, duration: float) -> None:
        self.metrics.add("equipoise_agent_rounds_total")
        self.metrics.add("equipoise_agent_round_duration_seconds_total", duration)
        received = self.watch.received_at
        silence = None if received is None else now - received
        self.metrics.set("equipoise_agent_api_silence_seconds", silence)
        self.health.connected = self.watch.problem is None and received is not None
        self.health.set_problem("kubernetes", self.watch.problem)
        unreadable = self.watch.unreadable
        self.health.set_problem("unreadable", unreadable_text(unreadable))
        self.metrics.set("equipoise_unreadable", float(len(unreadable)) or None, source="pods")

    def _changed(self) -> AgentConfiguration | None:
        configuration = read_configuration()
        problem = f"the changed configuration is not used: {'; '.join(configuration.errors.splitlines())}"
        self.health.set_problem("configuration", problem if configuration.errors else None)
        return None if configuration.errors or configuration.hash == self.health.configuration else configuration

    def close(self) -> None:
        self.health.stopping = True
        self.watch.stop()
        self.server.close()
        self.agent.close()


def refuse(errors: str) -> NoReturn:
    for line in errors.splitlines():
        print(f"equipoise agent: {line}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"equipoise-agent {read_configuration().version}")
        return
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))  # some six files per pod stay open
    file = ConfigurationFile(os.environ.get("EQUIPOISE_CONFIG") or None)
    configuration = read_configuration()
    if configuration.errors:
        refuse(configuration.errors)
    gc.freeze()  # what was imported is never garbage
    program = started(configuration)
    while (changed := program.run(stop, file)) is not None:
        program.log.info("the configuration has changed", before=configuration.hash, now=changed.hash)
        if changed.agent.suppression.policy != configuration.agent.suppression.policy:
            program.agent.restore()
        program.close()
        configuration = changed
        program = started(configuration)  # continues from the limits that the cgroups contain
    program.agent.restore()
    program.close()


def started(configuration: AgentConfiguration) -> AgentProgram:
    """The program with this configuration. The process ends if the configuration cannot be used."""
    try:
        return AgentProgram(configuration, os.environ)
    except (ValueError, RequestFailed) as error:
        refuse(str(error))


if __name__ == "__main__":
    main()
