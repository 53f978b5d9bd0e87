"""Which clusters of `equipoise testbed up` run on this machine, told by one small file each."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class RunningCluster:
    name: str
    pid: int
    started: str
    """The process's start in the kernel's own count: tells it from a later one with the same pid."""
    api: str
    kubeconfig: str
    prometheus: str
    nats: str
    directory: str


def default_state(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "equipoise" / "testbed"


def process_start(pid: int) -> str | None:
    """None when there is no such process, or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before may hold blanks
    return None if fields[0] in "ZX" else fields[19]


def record(cluster: RunningCluster, state: Path) -> Path:
    state.mkdir(parents=True, exist_ok=True)
    file = state / f"{cluster.name}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(cluster), indent=1))
    new.replace(file)
    return file


def running(state: Path) -> list[RunningCluster]:
    """The living; what the dead left is removed."""
    living = []
    for file in sorted(state.glob("*.json")):
        cluster = RunningCluster(**json.loads(file.read_text()))
        if process_start(cluster.pid) == cluster.started:
            living.append(cluster)
        else:
            file.unlink(missing_ok=True)
    return living
