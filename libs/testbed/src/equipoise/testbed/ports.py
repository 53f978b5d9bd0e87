"""Loopback ports that two clusters on one machine never share."""

import random
import socket

FIRST, LAST, BLOCK = 20000, 32000, 32  # below the ports Linux gives to outgoing connections


class PortBlock:
    """A block of ports, held through an abstract socket name that the kernel frees with the process."""

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
        raise RuntimeError(f"every port block from {FIRST} to {LAST} is taken by running testbed clusters")

    def take(self) -> int:
        """The next port of the block that nobody listens on."""
        for port in self._ports:
            with socket.socket() as probe:
                # As servers do it, else a connection that is timing out would make a free port look taken.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port
        raise RuntimeError(f"all {BLOCK} ports of this cluster are used up")

    def release(self) -> None:
        self._claim.close()
