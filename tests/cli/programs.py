"""Runs the program as a child process, or in this process."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cli.command_server import command_server
from click.testing import CliRunner, Result

from equipoise.cli.main import main

PROGRAM = (sys.executable, "-c", "from equipoise.cli.main import main; main(prog_name='equipoise')")


def invoke(*arguments: str, text: str = "", **variables: str) -> Result:
    """In this process; `text` is standard input."""
    runner = CliRunner(env={"KUBECONFIG": None, "EQUIPOISE_CONFIG": None, **variables})
    return runner.invoke(main, arguments, input=text)


class Running:
    """A started command, and what it has printed so far to stdout and stderr."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.output = ""

    async def prints(self, pattern: str, timeout: float = 100.0) -> re.Match[str]:
        """Wait for output that matches."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                while not (found := re.search(pattern, self.output)):
                    line = await self.process.stdout.readline()
                    assert line, f"it ended without printing {pattern}:\n{self.output}"
                    self.output += line.decode()
        except TimeoutError:
            raise AssertionError(f"it did not print {pattern} within {timeout:g} s:\n{self.output}") from None
        return found

    async def ends(self, timeout: float = 100.0) -> int:
        """The exit code."""
        assert self.process.stdout is not None
        async with asyncio.timeout(timeout):
            self.output += (await self.process.stdout.read()).decode()
            return await self.process.wait()


async def started(*arguments: str | Path, **variables: str) -> Running:
    return Running(
        await asyncio.create_subprocess_exec(
            *PROGRAM,
            *map(str, arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **variables},
        )
    )


async def run(*arguments: str | Path, **variables: str) -> tuple[int, str]:
    """Exit code and output. The process is forked from one that has imported the program."""
    async with asyncio.timeout(100.0):
        return await command_server().run([*map(str, arguments)], {**os.environ, **variables})


def processes_with(text: str) -> Mapping[int, str]:
    """Command lines of the processes that have this text in their environment or arguments."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if (
                entry.name.isdigit()
                and text.encode() in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            ):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found
