"""A server before a Prometheus that may require a token. Runs in a pod, as `python3 -c TEXT URL [FILE]`.

`URL`: the Prometheus. `FILE`: the token that requests must have, read for each of them; without it, none is required.
It uses the standard library alone.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PORT = 9090
TIMEOUT = 30.0


class Gateway(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes | None) -> None:
        url, *token_file = sys.argv[1:]
        if token_file and self.headers["Authorization"] != f"Bearer {Path(token_file[0]).read_text().strip()}":
            self._send(401, b"Unauthorized")
            return
        headers = {name: self.headers[name] for name in ("Content-Type",) if self.headers[name]}
        try:
            with urlopen(Request(url + self.path, body, headers), timeout=TIMEOUT) as response:
                self._send(response.status, response.read())
        except HTTPError as error:
            self._send(error.code, error.read())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), Gateway).serve_forever()
