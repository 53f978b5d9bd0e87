"""What a running `equipoise up` leaves for other commands: a file that states how its services are reached."""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.runtime.process.bounded_files import read_bounded

CONNECT_SECONDS = 1.0

_OTHERS_MAY_WRITE = 0o022


class RunningUp(msgspec.Struct, frozen=True, kw_only=True):
    """One `equipoise up`. The file holds no password, only the name of the file that does."""

    cluster: ClusterName
    namespace: str
    process: int
    process_start: str
    """The start of that process in the kernel's count, because process ids are used again. Empty if it is not known."""

    nats_url: str
    user: str
    password_file: str
    configuration: str
    """The file with which it was started."""

    services_configuration: str = ""
    """The file that its services read: with defaults, options, and what was detected. Empty for an earlier version."""

    started_at: float

    def __str__(self) -> str:
        return f"`equipoise up` (process {self.process}, context {self.cluster.context})"


def folder(environment: Mapping[str, str]) -> Path:
    """`environment`: XDG_STATE_HOME and HOME; a relative path is ignored, as the XDG specification requires."""
    base = environment.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path(environment.get("HOME") or Path.home()) / ".local" / "state"
    return root / "equipoise" / "up"


@contextmanager
def recorded(running: RunningUp, environment: Mapping[str, str]) -> Iterator[None]:
    """The file exists while the block runs; only this user may read it. If it cannot be written, stderr states that."""
    file = folder(environment) / f"{_key(running.cluster)}-{running.process}.json"
    new = file.with_suffix(".new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            new.unlink()
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as to:
            to.write(msgspec.json.encode(running))
        new.replace(file)
    except OSError as error:
        click.echo(f"other commands do not find this process without --nats: {error}", err=True)
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()


def running_up(
    cluster: ClusterName, environment: Mapping[str, str], *, accepts: Callable[[str], bool] | None = None
) -> RunningUp | None:
    """The `equipoise up` for this cluster that was started first: later ones are standbys. None if none runs.

    `accepts`: whether a URL accepts connections. Files of processes that have ended are removed.
    """
    found = sorted(_all(cluster, environment), key=lambda each: each.started_at)
    return next((each for each in found if (accepts or accepts_connections)(each.nats_url)), None)


def _all(cluster: ClusterName, environment: Mapping[str, str]) -> Iterator[RunningUp]:
    try:
        files = sorted(folder(environment).glob(f"{_key(cluster)}-*.json"))
    except OSError:
        return
    for file in files:
        running = _read(file)
        if (
            running is not None
            and running.cluster == cluster
            and process_start(running.process) == running.process_start
        ):
            yield running
            continue
        with suppress(OSError):
            file.unlink()


def _read(file: Path) -> RunningUp | None:
    """The content of a file; None if it cannot be read, or if others could have written it."""
    try:
        status = file.stat()
        if status.st_uid != os.getuid() or status.st_mode & _OTHERS_MAY_WRITE:
            return None
        return msgspec.json.decode(read_bounded(file), type=RunningUp)
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def process_start(process: int) -> str | None:
    """The start of a process, in ticks since the boot; empty if the kernel does not have it. None: no such process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):
        return None if process <= 0 else ""
    try:
        # The name of the program, in parentheses, may contain spaces.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError, UnicodeError):
        return ""


def accepts_connections(url: str) -> bool:
    try:
        address = urlsplit(url)
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=CONNECT_SECONDS):
            return True
    except (OSError, ValueError):
        return False


@cache
def note_use(running: RunningUp) -> None:
    """Prints that this `equipoise up` is used: once per command, to stderr."""
    click.echo(f"using {running}", err=True)


def _key(cluster: ClusterName) -> str:
    text = "\0".join((cluster.context, cluster.cluster, cluster.server))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
