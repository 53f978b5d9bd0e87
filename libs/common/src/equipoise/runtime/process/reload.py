"""A changed configuration file is applied while the service runs; an invalid one is reported and ignored."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration import Configuration, ConfigurationError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

S = TypeVar("S", bound=Section)

PERIOD = 5.0
"""Seconds between two reads of the file's status."""

Stamp = tuple[int, int, int] | None


def stamp(path: Path) -> Stamp:
    """Differs when the file does: also after kubelet has put another directory under a ConfigMap's link."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class FileWatch:
    """Detects changes of a file. A change is reported once it is unchanged for one period: writes may go on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._settled = stamp(path)

    def changed(self) -> bool:
        before, self._seen = self._seen, stamp(self._path)
        if self._seen != before or self._seen == self._settled:
            return False
        self._settled = self._seen
        return True


async def next_configuration(
    watch: FileWatch, load: Callable[[], Configuration[S]], current: Configuration[S], clock: Clock, health: Health
) -> Configuration[S]:
    """Return when the file holds another configuration for this service; other services' sections do not count."""
    while True:
        await clock.sleep(PERIOD)
        if not watch.changed():
            continue
        try:
            found = load()
        except ConfigurationError as error:
            refused(health, error)
            continue
        health.set_problem("configuration", None)
        if found.hash != current.hash:
            return found


def refused(health: Health, error: ConfigurationError) -> None:
    """Report that the previous configuration remains in use."""
    health.set_problem("configuration", f"the changed configuration is not used: {'; '.join(str(error).splitlines())}")
