"""The configuration of the agent, and its changes."""

import os
import sys

import msgspec

from equipoise.agent.settings import AgentSettings

PROGRAM = "equipoise.agent.shell.configuration_program"


class AgentConfiguration(msgspec.Struct, frozen=True):
    """The configuration of the agent, or the errors in it."""

    version: str = ""
    """The version of this package. The module that reads it takes memory."""

    hash: str = ""
    agent: AgentSettings = AgentSettings()
    service_account: str = ""
    log_format: str = "auto"
    log_level: str = "info"
    errors: str = ""
    """A line for each fault; empty: there is none."""


def read_configuration() -> AgentConfiguration:
    """Starts the program that reads the configuration, and waits for the result."""
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)]
    child = os.posix_spawn(sys.executable, [sys.executable, "-m", PROGRAM], os.environ, file_actions=actions)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not text:
        return AgentConfiguration(errors=f"{PROGRAM} ended with {os.waitstatus_to_exitcode(status)}")
    return msgspec.json.decode(text, type=AgentConfiguration)


Stamp = tuple[int, int, int] | None


class ConfigurationFile:
    """Detects changes of the file. A change is reported only if the file is the same at the next call, because it may
    still be written."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._seen = self._settled = self._now()

    def changed(self) -> bool:
        before, self._seen = self._seen, self._now()
        if self._seen != before or self._seen == self._settled:
            return False
        self._settled = self._seen
        return True

    def _now(self) -> Stamp:
        return stamp_of(self._path) if self._path else None


def stamp_of(path: str) -> Stamp:
    """Differs when the file does: also after the kubelet has put another directory under a ConfigMap's link."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
