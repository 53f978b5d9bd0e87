"""The agent's program, with cgroups and the API server of a cluster."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.real_cgroups import ROOT

from equipoise.testbed.cluster import Cluster


class AgentProcess:
    """`python -m equipoise.agent` of one node."""

    def __init__(
        self, cluster: Cluster, node: str, top: str, token: Path, directory: Path, *, root: Path = ROOT
    ) -> None:
        """`top`: the group, below `root`, of the group `kubepods`."""
        self._cluster = cluster
        self._node = node
        self._top = top
        self.root = root
        self._token = token
        self.file = directory / "equipoise-agent.yaml"
        self.log = directory / "agent.log"
        self._port = cluster.free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self, **settings: Any) -> Iterator["AgentProcess"]:
        self.configure(**settings)
        environment = {
            **os.environ,
            **self._cluster.in_cluster_environment,
            "NODE_NAME": self._node,
            "EQUIPOISE_CONFIG": str(self.file),
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "equipoise.agent"], env=environment, stderr=log)
        try:
            yield self
        finally:
            self.process.kill()
            self.process.wait()

    def configure(self, **settings: Any) -> None:
        """Writes the configuration, which a running agent then reads."""
        agent = {
            "health": f"127.0.0.1:{self._port}",
            "cgroupRoot": str(self.root),
            "cgroupParent": f"{self._top}/kubepods",
            "period": 0.2,
            **settings,
        }
        document = {
            "apiVersion": "equipoise.dev/v1alpha1",
            "kind": "EquipoiseConfiguration",
            "kubernetes": {"serviceAccount": str(self._token.parent)},
            "agent": agent,
        }
        self.file.write_text(json.dumps(document))

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(20)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def get(self, path: str) -> tuple[int, str]:
        """0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def problems(self) -> list[str]:
        found: list[str] = json.loads(self.get("/readyz")[1])["problems"]
        return found

    def configuration(self) -> str:
        """The hash of the configuration that is in use; empty while nobody listens."""
        status, text = self.get("/readyz")
        return str(json.loads(text)["configuration"]) if status else ""

    def memory(self) -> float:
        """MiB."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def image(self) -> bytes:
        """What differs for each program that a process executes."""
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}/auxv").read_bytes()

    def threads(self) -> int:
        assert self.process is not None
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))
