"""Requests to servers on the loopback interface, without proxies and with a short timeout."""

import http.client
import json
import socket
import ssl
import urllib.request
from pathlib import Path
from typing import Any

SECONDS = 2.0


def get(url: str, *, method: str = "GET", token: str | None = None, ca_file: Path | None = None) -> bytes:
    """The body of a 2xx response, else an OSError. Without a CA file any certificate is accepted."""
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


def responds(url: str, *, token: str | None = None, ca_file: Path | None = None) -> bool:
    try:
        get(url, token=token, ca_file=ca_file)
    except (OSError, http.client.HTTPException):  # refused, incomplete, or another server
        return False
    return True


def accepts(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(SECONDS)
        return client.connect_ex(("127.0.0.1", port)) == 0
