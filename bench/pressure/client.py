"""Requests at fixed times, whether or not earlier ones were answered, as many independent users send them."""

import contextlib
import math
import os
import select
import socket
import time

REQUEST = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n"
RESPONSE = b"\r\n\r\nok"


def connected(port: int, timeout: float = 30.0, *, address: str = "127.0.0.1") -> socket.socket:
    """A connection to the server. Raises OSError if it does not listen in time."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection = socket.create_connection((address, port))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def prefer_this_process() -> None:
    """Lets this process run before all others: its users are on other machines."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def latencies(connection: socket.socket, rate: float, seconds: float) -> list[float]:
    """The seconds from the time at which each request was due until its response. It waits for the last response."""
    due = [number / rate for number in range(math.ceil(rate * seconds))]
    begin, sent, answered, received = time.monotonic(), 0, list[float](), b""
    while len(answered) < len(due):
        now = time.monotonic() - begin
        while sent < len(due) and due[sent] <= now:
            connection.sendall(REQUEST)
            sent += 1
        wait = max(0.0, due[sent] - now) if sent < len(due) else 1.0
        if not select.select([connection], [], [], wait)[0]:
            continue
        if not (chunk := connection.recv(65536)):
            raise ConnectionError("the server ended: see its error above")
        received += chunk
        count = received.count(RESPONSE)
        received = received[received.rfind(RESPONSE) + len(RESPONSE) :] if count else received
        now = time.monotonic() - begin
        answered += [now - due[len(answered) + offset] for offset in range(count)]
    return answered
