"""Requests to servers on the loopback interface, and the ports of these servers.

Requests use no proxy and have a short timeout. Two clusters on one machine never use the same ports.
"""

import http.client
import json
import random
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

SECONDS = 2.0

FIRST, LAST, BLOCK = 20000, 32000, 32  # below the ephemeral ports of Linux


def get(url: str, *, method: str = "GET", token: str | None = None, ca_file: Path | None = None) -> bytes:
    """The body of a 2xx response. Raises OSError for any other one. Without a CA file, every certificate is
    accepted."""
    request = urllib.request.Request(url, method=method)  # noqa: S310 - loopback addresses only
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if url.startswith("https:"):
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        if ca_file is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        handlers.append(urllib.request.HTTPSHandler(context=context))
    with urllib.request.build_opener(*handlers).open(request, timeout=SECONDS) as response:
        body: bytes = response.read()
        return body


def get_json(url: str) -> Any:
    return json.loads(get(url))


def responds(url: str, *, token: str | None = None, ca_file: Path | None = None, instead_of_404: str = "") -> bool:
    """Whether a server answers with 2xx. `instead_of_404`: the URL to request if there is no `url` on the server."""
    try:
        get(url, token=token, ca_file=ca_file)
    except urllib.error.HTTPError as error:
        return error.code == 404 and bool(instead_of_404) and responds(instead_of_404, token=token, ca_file=ca_file)
    except (OSError, http.client.HTTPException):  # refused, incomplete, or another server
        return False
    return True


def accepts(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(SECONDS)
        return client.connect_ex(("127.0.0.1", port)) == 0


class PortBlock:
    """A block of ports, reserved by an abstract socket that the kernel releases when the process ends."""

    def __init__(self) -> None:
        blocks = list(range(FIRST, LAST, BLOCK))
        random.shuffle(blocks)
        for first in blocks:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                claim.bind(f"\0equipoise-testbed-ports-{first}")
            except OSError:
                claim.close()
                continue
            self._claim = claim
            self._ports = iter(range(first, first + BLOCK))
            return
        raise RuntimeError(f"every port block from {FIRST} to {LAST} is used by running testbed clusters")

    def take(self) -> int:
        """The next unused port of the block."""
        for port in self._ports:
            with socket.socket() as probe:
                # Servers set this option as well. Without it, a connection in TIME_WAIT makes a free port look used.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port
        raise RuntimeError(f"all {BLOCK} ports of this cluster are used up")

    def release(self) -> None:
        self._claim.close()
