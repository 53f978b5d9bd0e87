"""The health of a process: readiness, data problems, leadership."""

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Gauge

log = structlog.get_logger()

_NUMBER = re.compile(r"\d+(\.\d+)?")


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The body of /readyz."""

    ready: bool
    waiting_for: list[str]
    """Why it is not ready; empty when it is."""

    connections: dict[str, bool]
    problems: list[str]
    """Data problems. They never make a process unready, because a restart would not solve them."""

    leading: bool | None
    configuration: str
    """Hash of the configuration."""


class Health:
    """Ready means connected, and warmed up once. All methods are cheap: they are called every few seconds."""

    def __init__(self, *, configuration_hash: str, metrics: CollectorRegistry) -> None:
        self.leading: bool | None = None
        """None: this service has no leader."""

        self.evictions = ""
        """Of a binder: `real`, `dry run`, or the reason why it evicts nothing."""

        self.shard = ""
        """Of a collector: the part of the cluster that it measures together with collectors of the same name."""

        self._configuration_hash = configuration_hash
        self._connections: dict[str, Callable[[], bool]] = {}
        self._sources: list[Callable[[], Sequence[str]]] = []
        self._problems: dict[str, str] = {}
        self._warm = False
        self._stopping = False
        self._problem_gauge = Gauge(
            "equipoise_problem", "1 for each problem that /readyz reports.", ["key"], registry=metrics
        )
        ready = Gauge("equipoise_ready", "1 when /readyz returns 200.", registry=metrics)
        ready.set_function(lambda: float(not self._waiting_for()))  # called in another thread: only reads
        leading = Gauge("equipoise_leader", "1 while this replica leads.", registry=metrics)
        leading.set_function(lambda: float(bool(self.leading)))

    def set_problem(self, key: str, text: str | None) -> None:
        """A data problem, or None when it is resolved. Logged when it begins, changes and ends.

        Different numbers are not a change: an age or a share would be logged every few seconds. `key` is the kind of
        the problem, not the object, because it is the label of a metric.
        """
        before = self._problems.get(key)
        if text is None:
            if before is not None:
                del self._problems[key]
                self._problem_gauge.remove(key)
                log.info("problem resolved", key=key, was=before)
            return
        self._problems[key] = text
        self._problem_gauge.labels(key).set(1)
        if before is None or _NUMBER.sub("", text) != _NUMBER.sub("", before):
            log.warning("problem", key=key, text=text)

    def warmed_up(self) -> None:
        """The service can do its work from now on."""
        if not self._warm:
            self._warm = True
            log.info("warmed up")

    def require(self, name: str, connected: Callable[[], bool]) -> None:
        """A connection without which the service is not ready."""
        self._connections[name] = connected

    def include_problems(self, problems: Callable[[], Sequence[str]]) -> None:
        """Problems that another component stores and logs, such as the bus."""
        self._sources.append(problems)

    def stop(self) -> None:
        """The process is never ready again: clients must not send requests."""
        self._stopping = True

    @property
    def connections(self) -> Mapping[str, bool]:
        return {name: connected() for name, connected in list(self._connections.items())}

    @property
    def problems(self) -> list[str]:
        return [*self._problems.values(), *(text for source in self._sources for text in source())]

    def report(self) -> Readiness:
        waiting = self._waiting_for()
        return Readiness(
            ready=not waiting,
            waiting_for=waiting,
            connections=dict(self.connections),
            problems=self.problems,
            leading=self.leading,
            configuration=self._configuration_hash,
        )

    def _waiting_for(self) -> list[str]:
        waiting = [name for name, connected in self.connections.items() if not connected]
        if not self._warm:
            waiting.append("warm-up")
        if self._stopping:
            waiting.append("stopping")
        return waiting
