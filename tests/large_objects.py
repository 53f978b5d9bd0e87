"""An API server whose objects are as long as tenants can make them, and children that read them in little memory."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import run
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

MIB = 2**20
ESCAPED = "\\u003c"
"""`<` as the API server writes it: six bytes for one in etcd."""

PEAK = """
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
"""
"""Not by getrusage, which begins with the memory of the process that started the child."""


def filled(document: dict[str, Any], size: int) -> bytes:
    """The object with a text of about `size` bytes in place of "<"."""
    return json.dumps(document, separators=(",", ":")).replace('"<"', f'"{ESCAPED * (size // 6)}"').encode()


class LargeObjects:
    """Lists of these objects, page by page, and a watch that sends the later ones and then ends."""

    def __init__(self, listed: list[bytes], changed: list[bytes]) -> None:
        self.listed = listed
        self.changed = changed
        self.url = ""
        self.port = 0

    def answer(self, query: dict[str, list[str]]) -> Iterator[bytes]:
        if "watch" in query:
            for each in self.changed:
                yield b'{"type":"MODIFIED","object":%s}\n' % each
            return
        start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        end = start + limit
        following = f',"continue":"{end}"' if end < len(self.listed) else ""
        yield b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5"%s},"items":[' % following.encode()
        for number, each in enumerate(self.listed[start:end]):
            yield b"," * bool(number) + each
        yield b"]}"


@contextmanager
def large_objects(listed: list[bytes], changed: list[bytes] | None = None) -> Iterator[LargeObjects]:
    """Served over plain HTTP. Of a response that the client does not read to its end the rest is not sent."""
    world = LargeObjects(listed, changed or [])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                for part in world.answer(parse_qs(urlsplit(self.path).query)):
                    self.wfile.write(part)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        world.port = server.server_port
        world.url = f"http://127.0.0.1:{world.port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield world
        finally:
            server.shutdown()
            thread.join()


def in_a_child(program: str, *arguments: str) -> Any:
    """What the program prints, as JSON. It may call `peak()`: the most bytes of memory that it had so far."""
    command = [sys.executable, "-c", PEAK + program, *arguments]
    done = run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout.splitlines()[-1])
