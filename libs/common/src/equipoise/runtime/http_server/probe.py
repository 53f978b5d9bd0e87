"""A health check for images without curl: `python -m equipoise.runtime.http_server.probe http://127.0.0.1:8083/readyz`."""

import http.client
import sys
from contextlib import closing
from urllib.parse import urlsplit

_SECONDS = 3.0


def main(arguments: list[str]) -> int:
    """Sends one request. Returns 0 if the status is 200, 2 for wrong usage, else 1 with the reason on stderr."""
    try:
        (url,) = arguments
        address = urlsplit(url)
        port = address.port or 80
    except ValueError:
        address, port = urlsplit(""), 0
    if address.scheme != "http" or not address.hostname:
        print("usage: python -m equipoise.runtime.http_server.probe http://HOST:PORT/PATH", file=sys.stderr)
        return 2
    try:
        with closing(http.client.HTTPConnection(address.hostname, port, timeout=_SECONDS)) as connection:
            connection.request("GET", address.path or "/")
            response = connection.getresponse()
            body = response.read(2_000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    if response.status != 200:
        print(f"{arguments[0]}: {response.status} {body}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
