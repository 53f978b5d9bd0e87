"""The clusters of `equipoise testbed up` and of the demo on this machine. Each has a state file."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.testbed.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class RunningCluster:
    name: str
    pid: int
    started: str
    """Start time of the process in clock ticks since boot. It distinguishes the process from a later one with the same
    pid."""
    api: str
    kubeconfig: str
    prometheus: str
    nats: str
    directory: str


def default_state(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "equipoise" / "testbed"


def process_start(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot; None if it does not exist or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the process name may contain spaces
    return None if fields[0] in "ZX" else fields[19]


def record(cluster: RunningCluster, state: Path) -> Path:
    state.mkdir(parents=True, exist_ok=True)
    file = state / f"{cluster.name}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(cluster), indent=1))
    new.replace(file)
    return file


@contextmanager
def listed(name: str, cluster: "Cluster", *, nats: bool) -> Iterator[RunningCluster]:
    """A cluster of this process, listed while the block runs."""
    started = process_start(os.getpid())
    assert started is not None
    described = RunningCluster(
        name=name,
        pid=os.getpid(),
        started=started,
        api=cluster.url,
        kubeconfig=str(cluster.kubeconfig),
        prometheus=cluster.prometheus_url,
        nats=cluster.nats_url if nats else "",
        directory=str(cluster.directory),
    )
    file = record(described, default_state())
    try:
        yield described
    finally:
        file.unlink(missing_ok=True)


def running(state: Path) -> list[RunningCluster]:
    """The clusters whose process runs. The state files of other clusters are removed."""
    found = []
    for file in sorted(state.glob("*.json")):
        cluster = RunningCluster(**json.loads(file.read_text()))
        if process_start(cluster.pid) == cluster.started:
            found.append(cluster)
        else:
            file.unlink(missing_ok=True)
    return found
