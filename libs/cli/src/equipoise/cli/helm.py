"""Runs the program helm."""

import asyncio
import os
import shlex
from collections.abc import Sequence

from equipoise.cli.exit_codes import CommandFailed


async def run_helm(command: Sequence[str], kubeconfig: str) -> None:
    """Run a helm command with its output on the terminal. Raises CommandFailed if it fails."""
    environment = os.environ | ({"KUBECONFIG": kubeconfig} if kubeconfig else {})
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    if await process.wait():
        raise CommandFailed(f"`{shlex.join(command)}` failed")
