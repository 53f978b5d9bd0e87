"""A server that ends its requests at SIGTERM. Runs in a pod, as `python3 -c`: it uses the standard library alone."""

import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: there are a hundred requests in a second."""


class Server(ThreadingHTTPServer):
    daemon_threads = False
    """So that `server_close` waits for the requests that are being answered."""

    request_queue_size = 128


def main() -> None:
    server = Server(("", PORT), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)
    server.server_close()


if __name__ == "__main__":
    main()
