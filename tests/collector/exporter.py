"""An exporter that tests write, and a real Prometheus that scrapes it."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from equipoise.testbed.processes.guard import Guard
from equipoise.testbed.processes.loopback import PortBlock

SCRAPE_INTERVAL = 0.2
"""Seconds."""


class Exporter:
    """Each page is a target of its own. A page without text responds with status 500, as a broken target does."""

    def __init__(self) -> None:
        self._pages: dict[str, Callable[[], str]] = {}
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = exporter._pages.get(self.path)
                body = b"" if page is None else page().encode()
                self.send_response(500 if page is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                # A scrape that is overdue ends its connection. A traceback would be part of the output of a command.
                with suppress(ConnectionError):
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def show(self, page: str, text: Callable[[], str]) -> None:
        self._pages[f"/{page}"] = text

    def hide(self, page: str) -> None:
        self._pages.pop(f"/{page}", None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def a_node(cores: float, memory: float | str = 1e9, *, since: float | None = None) -> Callable[[], str]:
    """What a kubelet shows of a node that uses this many cores from now on."""
    begun = time.monotonic() if since is None else since

    def text() -> str:
        return (
            f"node_cpu_usage_seconds_total {1_000 + cores * (time.monotonic() - begun):.6f}\n"
            f"node_memory_working_set_bytes {memory}\n"
        )

    return text


@contextmanager
def prometheus(
    binary: Path,
    folder: Path,
    jobs: list[dict[str, object]],
    rules: dict[str, object] | None = None,
    every: float = SCRAPE_INTERVAL,
) -> Iterator[str]:
    """A Prometheus with these scrape jobs and rules; its URL. `every`: seconds between two scrapes."""
    ports = PortBlock()
    port = ports.take()
    interval = f"{round(every * 1000)}ms"
    configuration: dict[str, object] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": jobs
    }  # fmt: skip
    if rules is not None:
        (folder / "rules.yaml").write_text(json.dumps(rules))
        configuration["rule_files"] = [str(folder / "rules.yaml")]
    (folder / "prometheus.yaml").write_text(json.dumps(configuration))
    with Guard() as guard:
        guard.start(
            [
                binary,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--scrape.discovery-reload-interval=100ms",
                "--log.level=warn",
            ],
            log=folder / "prometheus.log",
        )
        url = f"http://127.0.0.1:{port}"
        _await_ready(url)
        yield url
    ports.release()


def _await_ready(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=10).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("Prometheus does not become ready")


def a_job(name: str, exporter: Exporter, page: str, **labels: str) -> dict[str, object]:
    """One target whose series have these labels."""
    return {
        "job_name": name,
        "metrics_path": f"/{page}",
        "static_configs": [{"targets": [exporter.address], "labels": labels}],
    }
