"""Whether the agent is ready, which problems it has, and the HTTP server that reports both."""

import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread

import msgspec

from equipoise.agent.shell.log import Log
from equipoise.agent.shell.metrics import CONTENT_TYPE, Metrics, process_usage
from equipoise.contracts.connection_limits import ConnectionLimits, ConnectionPool
from equipoise.contracts.plain_text import plain_text

_NUMBER = re.compile(r"\d+(\.\d+)?")

LONGEST_REQUEST = 16_384
"""Bytes."""

BACKLOG = 128
"""Connections that the kernel holds until they are accepted."""

RETRY_SECONDS = 0.1
"""The pause before the next connection is accepted, after an error such as too many open files."""

LIMITS = ConnectionLimits()

TEXT, JSON = "text/plain", "application/json"
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 503: "Service Unavailable"}


PROBLEM_LIMIT = 2_000
"""Characters of a problem: it may quote what other programs wrote."""


class AgentReadiness(msgspec.Struct, frozen=True, kw_only=True):
    """The body of /readyz, in the same form as that of the other services."""

    ready: bool
    waiting_for: list[str]
    connections: dict[str, bool]
    problems: list[str]
    leading: None = None
    configuration: str


class AgentHealth:
    """Ready means: the pods of the node are known, and a round was completed."""

    def __init__(self, log: Log, metrics: Metrics, *, stalled_after: float, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._metrics = metrics
        self._stalled_after = stalled_after
        self._monotonic = monotonic
        self._round_at = monotonic()
        self._rounds = 0
        self._problems: dict[str, str] = {}
        self.configuration = ""
        self.connected = False
        self.pods_known = False
        self.stopping = False

    def round_done(self) -> None:
        self._rounds += 1
        self._round_at = self._monotonic()

    def set_problem(self, key: str, text: str | None) -> None:
        """None: it is resolved. Logged when it begins, changes in more than its numbers, and ends."""
        before = self._problems.get(key)
        if text is None:
            if before is not None:
                del self._problems[key]
                self._log.info("problem resolved", key=key, was=before)
        else:
            text = plain_text(text, PROBLEM_LIMIT)
            self._problems[key] = text
            if before is None or _NUMBER.sub("", text) != _NUMBER.sub("", before):
                self._log.warning("problem", key=key, text=text)
        self._metrics.set("equipoise_problem", None if text is None else 1.0, key=key)

    @property
    def alive(self) -> bool:
        """False when no round was completed for long: a restart may help."""
        return self._monotonic() - self._round_at < self._stalled_after

    def report(self) -> AgentReadiness:
        waiting = []
        if not self.pods_known:
            waiting.append("pods of the node")
        if not self._rounds:
            waiting.append("first round")
        if self.stopping:
            waiting.append("stopping")
        return AgentReadiness(
            ready=not waiting,
            waiting_for=waiting,
            connections={"kubernetes": self.connected},
            problems=list(self._problems.values()),
            configuration=self.configuration,
        )


class HealthServer:
    """HTTP/1.0, a request per connection. The server of the standard library takes 1.3 MB more."""

    def __init__(
        self,
        address: str,
        health: AgentHealth,
        metrics: Metrics,
        version: str,
        proc: str = "/proc",
        limits: ConnectionLimits = LIMITS,
    ) -> None:
        """Raises ValueError if the address cannot be used."""
        self._health = health
        self._metrics = metrics
        self._version = version
        self._proc = proc
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, int(port)), family=family, backlog=BACKLOG)
        except (OSError, ValueError, OverflowError) as error:
            raise ValueError(f"agent.health: {address} cannot be listened on: {error}") from error
        self.port: int = self._socket.getsockname()[1]
        self._limits = limits
        self._pool = ConnectionPool[socket.socket](limits.total, limits.per_address)
        self._lock = Lock()
        self._closed = False
        Thread(target=self._serve, name="health", daemon=True).start()

    def close(self) -> None:
        """Stops accepting connections."""
        self._closed = True
        self._socket.shutdown(socket.SHUT_RDWR)  # ends the wait for a connection
        self._socket.close()

    def _serve(self) -> None:
        while not self._closed:
            try:
                connection, address = self._socket.accept()
                self._open(connection, address[0])
            except (OSError, RuntimeError):  # `close` was called, too many files are open, or no thread can start
                if not self._closed:
                    time.sleep(RETRY_SECONDS)

    def _open(self, connection: socket.socket, address: str) -> None:
        """A thread for each, so that a client that sends nothing delays neither a round nor another client."""
        with self._lock:
            displaced = self._pool.add(connection, address)
        if displaced is not None:
            with suppress(OSError):
                displaced.shutdown(socket.SHUT_RDWR)  # ends the wait of its thread
        try:
            Thread(target=self._handle, args=(connection,), name="request", daemon=True).start()
        except RuntimeError:
            self._end(connection)
            raise

    def _handle(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):
                line = _request_line(connection, time.monotonic() + self._limits.request_seconds)
                connection.settimeout(self._limits.response_seconds)  # of the whole response
                connection.sendall(self._answer(line))
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        with self._lock:
            self._pool.remove(connection)
        connection.close()

    def _answer(self, line: str) -> bytes:
        match line.split():
            case ["GET", path, _]:
                status, kind, body = self._response(path.partition("?")[0])
            case _:
                status, kind, body = 400, TEXT, "only GET is supported\n"
        content = body.encode()
        lines = (f"HTTP/1.0 {status} {REASONS[status]}", f"Content-Type: {kind}", f"Content-Length: {len(content)}")
        return "\r\n".join((*lines, "", "")).encode() + content

    def _response(self, path: str) -> tuple[int, str, str]:
        """Status, content type, body."""
        match path:
            case "/healthz":
                alive = self._health.alive
                return (200, TEXT, "ok\n") if alive else (503, TEXT, "no round was completed for too long\n")
            case "/readyz":
                report = self._health.report()
                return 200 if report.ready else 503, JSON, msgspec.json.encode(report).decode()
            case "/metrics":
                for name, value in process_usage(self._proc).items():
                    self._metrics.set(name, value)
                self._metrics.set("equipoise_ready", float(self._health.report().ready))
                return 200, CONTENT_TYPE, self._metrics.render()
            case "/version":
                return 200, JSON, msgspec.json.encode({"version": self._version}).decode()
        return 404, TEXT, "not found\n"


def _request_line(connection: socket.socket, until: float) -> str:
    """The first line of a request, after its whole head was received.

    If a part were left unread, closing the connection would reset it, and the client might not get the response.
    `until`: monotonic. Raises TimeoutError.
    """
    received, part = b"", b"-"
    while part and b"\r\n\r\n" not in received and len(received) < LONGEST_REQUEST:
        connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(4_096)
        received += part
    return received.partition(b"\r\n")[0].decode("ascii", "replace")
