"""Prometheus servers that are broken, slow or hostile."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from equipoise.collector.decisions.query import MetricQuery, NodeMatcher, SourceError
from equipoise.collector.settings import BasicAuthentication, PrometheusSettings
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import SystemClock

QUERY = MetricQuery(subject="node", resource="cpu", aggregate="mean", length=300.0, at=1_000.0004)
GOOD = json.dumps(
    {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"node": "a"}, "value": [1, "2"]}]}}
).encode()

Handler = BaseHTTPRequestHandler


class Server:
    """Responds as `respond` does, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.respond: Callable[[Handler], None] = lambda handler: send(handler, GOOD)
        server = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                server.respond(self)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                server.requests.append((f"{self.path}?{self.rfile.read(length).decode()}", dict(self.headers)))
                server.respond(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def send(handler: Handler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    opened = Server()
    yield opened
    opened.close()


def a_source(server: Server, **fields: Any) -> PrometheusSource:
    settings = PrometheusSettings(**({"url": f"{server.url}/", "timeout": 60.0} | fields))
    return PrometheusSource(settings, memory="workingSet", clock=SystemClock())


@pytest.fixture
async def source(server: Server) -> AsyncIterator[PrometheusSource]:
    opened = a_source(server, max_body_bytes=100_000)
    yield opened
    opened.close()


async def test_a_query_is_one_get_request(server: Server, source: PrometheusSource) -> None:
    """With its time in milliseconds, under a path without a double slash."""
    samples = await source.query(QUERY)
    (path, _) = server.requests[0]

    assert [("a", 2.0)] == [(sample.node, sample.value) for sample in samples]
    assert path.startswith("/api/v1/query?")
    assert "time=1000.000" in path
    assert "timeout=60s" in path


async def test_a_query_that_is_too_long_for_a_url_is_sent_as_a_form(server: Server, source: PrometheusSource) -> None:
    """Proxies refuse long URLs, and so does Prometheus from a megabyte on."""
    nodes = NodeMatcher("node", tuple(f"node-{number}.example.com" for number in range(5_000)))
    samples = await source.query(msgspec.structs.replace(QUERY, nodes=nodes))
    (path, headers) = server.requests[0]

    assert [("a", 2.0)] == [(sample.node, sample.value) for sample in samples]
    assert "application/x-www-form-urlencoded" == headers["Content-Type"]
    assert path.startswith("/api/v1/query?query=")
    assert path.count("example") == 5_000
    assert "time=1000.000" in path


@pytest.mark.parametrize(
    ("respond", "word"),
    [
        (lambda h: send(h, b"", 302, Location="http://169.254.169.254/"), "redirect"),
        (lambda h: send(h, b"<html>login</html>"), "no JSON"),
        (lambda h: send(h, b""), "no JSON"),
        (lambda h: send(h, GOOD[:-5]), "no JSON"),
        (lambda h: send(h, b"\xff\xfe"), "no JSON"),
        (lambda h: send(h, b"[" * 90_000), "no JSON"),
        (lambda h: send(h, GOOD.replace(b'"2"', b"NaN")), "no JSON"),
        (lambda h: send(h, GOOD + b" " * 200_000), "larger than"),
        (lambda h: send(h, b'{"status":"error","error":"bad query"}', 400), "400.*bad query"),
        (lambda h: send(h, b"ill", 500), "500"),
        (lambda h: send(h, GOOD.replace(b'"success"', b'"error"')), "failed"),
        (lambda h: send(h, GOOD[:-1] + b',"warnings":["a store is away"]}'), "a store is away"),
        (lambda h: send(h, b"[1]"), "no JSON object"),
        (lambda h: h.connection.shutdown(2), "Remote|aborted|closed|reset"),
    ],
)  # fmt: skip
async def test_a_bad_response_is_an_error_with_a_reason(
    server: Server, source: PrometheusSource, respond: Callable[[Handler], None], word: str
) -> None:
    """The next query succeeds."""
    server.respond = respond
    with pytest.raises(SourceError, match=word):
        await source.query(QUERY)
    server.respond = lambda handler: send(handler, GOOD)

    assert 1 == len(await source.query(QUERY))


def silent(handler: Handler, over: threading.Event) -> None:
    over.wait()


def dripping(handler: Handler, over: threading.Event) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not over.wait(0.1):
        handler.wfile.write(b" ")
        handler.wfile.flush()


@pytest.mark.parametrize("respond", [silent, dripping])
async def test_an_endless_response_ends_with_the_timeout(
    server: Server, respond: Callable[[Handler, threading.Event], None]
) -> None:
    """Whether the first byte is late or the last one. The next query succeeds."""
    source, over = a_source(server, timeout=2.0), threading.Event()
    server.respond = lambda handler: respond(handler, over)
    async with asyncio.timeout(60):
        with pytest.raises(SourceError, match=r"longer than|no response in time"):
            await source.query(QUERY)
    over.set()
    server.respond = lambda handler: send(handler, GOOD)

    assert 1 == len(await source.query(QUERY))
    source.close()


async def test_a_short_outage_is_bridged_by_retries(server: Server, source: PrometheusSource) -> None:
    """A 503 is retried a few times; a Retry-After of an hour is ignored."""
    statuses = iter([503, 503, 200])
    server.respond = lambda handler: send(handler, GOOD, next(statuses), Retry_After="3600")

    assert 1 == len(await source.query(QUERY))


async def test_a_refused_connection_is_reported(server: Server) -> None:
    """The reason is short and does not contain the query."""
    source = a_source(server)
    server.close()
    with pytest.raises(SourceError, match="refused") as caught:
        await source.query(QUERY)
    source.close()

    assert "query=" not in str(caught.value)


async def test_redirects_do_not_leak_the_token(server: Server, tmp_path: Path) -> None:
    """The other server gets no request."""
    other = Server()
    (tmp_path / "token").write_text("secret")
    source = a_source(server, bearer_token_file=str(tmp_path / "token"))
    server.respond = lambda handler: send(handler, b"", 307, Location=other.url)
    with pytest.raises(SourceError) as caught:
        await source.query(QUERY)
    source.close()
    other.close()

    assert [] == other.requests
    assert "secret" not in str(caught.value)


async def test_tokens_are_read_for_every_query(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotated token is used at once, and .netrc is ignored."""
    (tmp_path / ".netrc").write_text("default login eve password wrong\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    token = tmp_path / "token"
    source = a_source(server, bearer_token_file=str(token), headers={"X-Scope-OrgID": "platform"})
    for text in ("one", "two\n"):
        token.write_text(text)
        await source.query(QUERY)
    token.unlink()
    with pytest.raises(SourceError, match="cannot read"):
        await source.query(QUERY)
    source.close()

    assert ["Bearer one", "Bearer two"] == [headers["Authorization"] for _, headers in server.requests]
    assert "platform" == server.requests[0][1]["X-Scope-OrgID"]


async def test_basic_authentication_sends_name_and_password(server: Server, tmp_path: Path) -> None:
    """The password comes from its file."""
    (tmp_path / "password").write_text("open\n")
    basic = BasicAuthentication(username="eve", password_file=str(tmp_path / "password"))
    source = a_source(server, basic_authentication=basic)
    await source.query(QUERY)
    source.close()

    assert "Basic ZXZlOm9wZW4=" == server.requests[0][1]["Authorization"]


INTERRUPTED = """
import asyncio, sys
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.runtime.process.clock import SystemClock

async def main():
    client = PrometheusClient(PrometheusSettings(url=sys.argv[1], timeout=600), SystemClock())
    query = asyncio.create_task(client.time())
    await asyncio.to_thread(sys.stdin.readline)
    query.cancel()
    client.close()

asyncio.run(main())
"""


def test_a_process_that_ends_waits_for_no_query(server: Server) -> None:
    """At Ctrl-C a command ends at once, not after the timeout of its query."""
    over, received = threading.Event(), threading.Event()

    def respond(handler: Handler) -> None:
        received.set()
        over.wait()

    server.respond = respond
    try:
        with subprocess.Popen([sys.executable, "-c", INTERRUPTED, server.url], stdin=subprocess.PIPE) as process:
            try:
                assert received.wait(60)
                process.communicate(b"\n", timeout=30)
            finally:
                process.kill()
        assert process.returncode == 0
    finally:
        over.set()


async def test_concurrent_queries_are_limited(server: Server) -> None:
    """Never more than `concurrency` at the same time."""
    under_way, most, lock, two_at_once = 0, 0, threading.Lock(), threading.Event()

    def respond(handler: Handler) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == 2:
                two_at_once.set()
        two_at_once.wait(60)
        time.sleep(0.02)
        with lock:
            under_way -= 1
        send(handler, GOOD)

    server.respond = respond
    source = a_source(server, concurrency=2)
    await asyncio.gather(*(source.query(QUERY) for _ in range(10)))
    source.close()

    assert 2 == most


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"url": "prometheus:9090"}, "must have the form"),
        ({"url": "file:///etc/passwd"}, "must have the form"),
        ({"url": "http://prometheus:port"}, "must have the form"),
        ({"url": "http://prometheus:0"}, "must have the form"),
        ({"url": "http://eve:secret@prometheus"}, "basicAuthentication"),
        (
            {"bearerTokenFile": "t", "basicAuthentication": {"username": "u", "passwordFile": "p"}},
            "not both",
        ),
        ({"certFile": "c"}, "together"),
        ({"nodeLabels": []}, "at least one"),
    ],
)
def test_invalid_settings_are_refused(fields: dict[str, Any], word: str) -> None:
    """The error says what to do."""
    with pytest.raises(msgspec.ValidationError, match=word):
        msgspec.convert(fields, PrometheusSettings)


def test_a_kind_of_memory_that_the_profile_lacks_is_refused() -> None:
    """The kubelet's resource metrics have no anonymous memory."""
    with pytest.raises(ConfigurationError, match="workingSet"):
        PrometheusSource(PrometheusSettings(), memory="anonymous", clock=SystemClock())
