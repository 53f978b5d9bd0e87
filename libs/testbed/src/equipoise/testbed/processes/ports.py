"""Loopback ports: two clusters on one machine never use the same ones."""

import random
import socket

FIRST, LAST, BLOCK = 20000, 32000, 32  # below the ephemeral ports of Linux


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
                # As servers do: otherwise a connection in TIME_WAIT makes a free port look used.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port
        raise RuntimeError(f"all {BLOCK} ports of this cluster are used up")

    def release(self) -> None:
        self._claim.close()
