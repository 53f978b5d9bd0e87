"""A process that has imported the program and forks for each command: importing takes longer than most commands run."""

import asyncio
import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

LARGEST = 1 << 20
"""Bytes of a request: arguments and environment."""

END = b"\0"
"""What follows the output, before the exit code."""

LEFT_OUT = ("equipoise.cli.lab", "equipoise.cli.demo")
"""Packages of commands that load much and are not tested here."""


class CommandServer:
    """The side of the tests. The server ends with this process."""

    def __init__(self) -> None:
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            server = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads should not fork
            )
        atexit.register(server.wait)
        atexit.register(self._control.close)

    async def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Exit code, and output to stdout and stderr. Standard input is empty."""
        own, output = socket.socketpair()
        with output:
            request = {"arguments": [*arguments], "environment": {**environment}, "folder": os.getcwd()}
            socket.send_fds(self._control, [json.dumps(request).encode()], [output.fileno()])
        reader, writer = await asyncio.open_connection(sock=own)
        try:
            text, end, code = (await reader.read()).rpartition(END)
        finally:
            writer.close()
            await writer.wait_closed()
        assert end, "the server has ended: see its traceback on stderr"
        return int(code), text.decode()


@cache
def command_server() -> CommandServer:
    return CommandServer()


def serve(control: socket.socket) -> None:
    """Returns in the process of a command, after it has what a process of its own would have."""
    while True:
        message, files, _, _ = socket.recv_fds(control, LARGEST, 1)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            break
        os.close(files[0])
    control.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if command := os.fork():
        _, status = os.waitpid(command, 0)
        with open(files[0], "wb") as output:
            output.write(END + str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    os.dup2(files[0], 1)
    os.dup2(files[0], 2)
    os.close(files[0])
    request: dict[str, Any] = json.loads(message)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    time.tzset()
    sys.argv = ["equipoise", *request["arguments"]]


def load() -> None:
    """Import what commands import when they run."""
    package = importlib.import_module("equipoise.cli")
    for module in pkgutil.walk_packages(package.__path__, "equipoise.cli."):
        if not module.name.startswith(LEFT_OUT):
            importlib.import_module(module.name)
    for name in ("nats.aio.client", "equipoise.runtime.bus.nats.nats_bus", "equipoise.runtime.kubernetes.connection"):
        importlib.import_module(name)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, which is not that of a program
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the process of a command
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
    from equipoise.cli.main import main

    main(prog_name="equipoise")
