"""docker-compose.yml in containers: the documented commands, a score, and the dry run of an eviction.

`python -m e2e.compose_in_containers FOLDER` with tests/ in PYTHONPATH, as root and in a network namespace of its own:
Compose publishes fixed ports. Its last line is a JSON document.

podman finds netavark and aardvark-dns in its folders, or in those that EQUIPOISE_PODMAN_HELPERS names. Health checks
are run by this program: podman needs systemd to run them.

Containers reach the API server of the testbed at the address of their network. The Prometheus of Compose has the
metrics of that of the testbed, because fake kubelets have no addresses, and is built without Kubernetes discovery.
"""

import asyncio
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import yaml
from deployment.base import ROOT
from deployment.installation import DeployedCluster, deployed_cluster

from equipoise.contracts.bus.subjects import SERVICES
from equipoise.testbed.binaries.build import NODE, build, build_module, default_cache
from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.real_nodes.images import Images

ADDRESS = "10.99.78.1"
"""The address of this network namespace for containers."""

SECONDS = 300.0


def documented(heading: str, word: str) -> str:
    """The one block of commands with this word, in this section of docs/install.md."""
    text = (ROOT / "docs" / "install.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = [each for each in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) if word in each]
    return re.sub(r"^   ", "", block, flags=re.MULTILINE)


RUNC_WITHOUT_LIMITS = """\
#!/bin/sh
previous=
for word; do
    case $previous in
        --bundle) file=$word/config.json ;;
        --process) file=$word ;;
        *) file= ;;
    esac
    [ -z "$file" ] || sed -i 's/"rlimits":\\[[^]]*\\]/"rlimits":[]/' "$file"
    previous=$word
done
exec {runc} "$@"
"""
STATE = ("/run/containers", "/run/libpod", "/run/netns")
"""Where podman keeps what runs: folders of the mount namespace."""


def write_podman_configuration(folder: Path) -> dict[str, str]:
    """The environment in which podman keeps its images and networks in this folder, and needs no systemd."""
    runc = folder / "runc"
    # Without CAP_SYS_RESOURCE, runc cannot set limits: the container keeps those of this process.
    runc.write_text(RUNC_WITHOUT_LIMITS.format(runc=shutil.which("runc")))
    runc.chmod(0o755)
    folders = json.dumps([*os.environ.get("EQUIPOISE_PODMAN_HELPERS", "").split(":"), *HELPERS])
    (folder / "containers.conf").write_text(
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'helper_binaries_dir = {folders}\n[engine.runtimes]\nrunc = ["{runc}"]\n'
        f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{folder}/networks"\n'
        '[containers]\nlog_driver = "k8s-file"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


HELPERS = ("/usr/libexec/podman", "/usr/lib/podman")


class Composed:
    """A copy of what docker-compose.yml needs, in which commands run."""

    def __init__(self, folder: Path, deployed: DeployedCluster, kubectl: Path) -> None:
        self.deployed = deployed
        self.project = folder / "equipoise"
        self.project.mkdir()
        for name in ("docker-compose.yml", "docker-compose.colocation.yml"):
            shutil.copy(ROOT / name, self.project)
        shutil.copytree(ROOT / "k8s", self.project / "k8s")
        podman = folder / "podman"
        podman.mkdir()
        self.environment = {
            **os.environ,
            **write_podman_configuration(podman),
            "PATH": f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(self._kubeconfig(folder)),
        }

    def _kubeconfig(self, folder: Path) -> Path:
        """That of the testbed, with an address that containers reach."""
        document = json.loads(self.deployed.cluster.kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        cluster["server"] = f"https://{ADDRESS}:{urlsplit(self.deployed.cluster.url).port}"
        cluster["tls-server-name"] = "127.0.0.1"
        document["current-context"] = document["contexts"][0]["name"]
        file = folder / "kubeconfig"
        file.write_text(json.dumps(document))
        file.chmod(0o600)
        return file

    def configure(self) -> None:
        """Compressed time, and the metrics of the testbed's Prometheus."""
        (self.project / "k8s" / "base" / "equipoise.yaml").write_text(yaml.safe_dump(self.deployed.configuration))
        scrape = {
            "job_name": "testbed",
            "scrape_interval": "1s",
            "honor_labels": True,
            "metrics_path": "/federate",
            "params": {"match[]": ['{__name__=~".+"}']},
            "static_configs": [{"targets": [f"{ADDRESS}:{urlsplit(self.deployed.cluster.prometheus_url).port}"]}],
        }
        (self.project / "k8s" / "compose" / "prometheus.yaml").write_text(yaml.safe_dump({"scrape_configs": [scrape]}))

    def shell(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.project,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"failed with code {done.returncode}: {commands}\n{done.stdout}")
        return done.stdout

    def health(self, service: str) -> bool:
        """Whether the health check of a service passes. Without systemd, nothing else runs it."""
        done = subprocess.run(
            ["podman", "healthcheck", "run", f"equipoise_{service}_1"],
            env=self.environment,
            check=False,
            capture_output=True,
        )
        return done.returncode == 0

    async def until(self, what: str, true: Callable[[], bool | Awaitable[bool]]) -> float:
        """The seconds until the condition is true."""
        begun = time.monotonic()
        while not (await result if isinstance(result := true(), Awaitable) else result):
            if time.monotonic() > begun + SECONDS:
                names = self.shell("podman ps --all --format '{{.Names}}'").split()
                logs = self.shell("".join(f"echo -- {each}; podman logs --tail 15 {each} 2>&1\n" for each in names))
                raise SystemExit(f"not within {SECONDS:g} s: {what}\n{logs}\n{self.shell('podman ps --all')}")
            await asyncio.sleep(1)
        return time.monotonic() - begun

    async def scores(self) -> dict[str, int]:
        """By node, with the certificate of kube-scheduler."""
        folder = self.project / "secrets" / "extender"
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        context.load_cert_chain(folder / "client.crt", folder / "client.key")
        pod = {"metadata": {"name": "new", "namespace": "shop"}, "spec": {"containers": [{"name": "a"}]}}
        body = {"Pod": pod, "NodeNames": [node.name for node in self.deployed.trace.nodes]}
        async with aiohttp.ClientSession() as session:
            url = "https://127.0.0.1:8888/prioritize"
            name = "equipoise-scorer.equipoise-system.svc"
            async with session.post(url, json=body, ssl=context, server_hostname=name) as response:
                return {each["Host"]: each["Score"] for each in await response.json()}

    @contextmanager
    def tapping(self) -> Iterator[Path]:
        """The file with the outcomes of evictions that `equipoise tap` prints."""
        access = "--nats tls://127.0.0.1:4222 --user tap --password-file secrets/tap --nats-ca secrets/nats/ca.crt"
        file = self.project / "tapped"
        with file.open("w") as output:
            command = f"exec equipoise tap -o json 'eviction.outcome.>' {access}"
            tap = subprocess.Popen(["bash", "-c", command], cwd=self.project, env=self.environment, stdout=output)
        try:
            yield file
        finally:
            tap.terminate()
            tap.wait()

    async def nodes_differ(self) -> bool:
        try:
            return len(set((await self.scores()).values())) > 1
        except aiohttp.ClientError:
            return False


def remove_groups() -> None:
    """Removes the empty cgroups of containers, which outlive the processes in them."""
    for group in sorted(Path("/sys/fs/cgroup").glob("*/libpod_parent/**/"), reverse=True):
        with suppress(OSError):  # another podman uses it
            group.rmdir()


def enter_own_network() -> None:
    """Gives this network namespace an address for containers, and podman a state of its own."""
    for command in (["link", "set", "lo", "up"], ["address", "add", f"{ADDRESS}/32", "dev", "lo"]):
        subprocess.run(["ip", *command], check=True)
    for state in STATE:
        Path(state).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", state], check=True)


async def main(folder: Path) -> None:
    cache = default_cache()
    with Progress() as progress:
        images = Images(cache, progress)
        binaries = build(progress=progress)
        kubectl = build_module(NODE, cache=cache, progress=progress) / "kubectl"
        archives = [images.nats(), images.prometheus(binaries.prometheus), images.product(ROOT)]
    async with deployed_cluster(binaries, folder / "deployed", address="0.0.0.0") as deployed:
        composed = Composed(folder, deployed, kubectl)
        for archive in archives:
            composed.shell(f"podman load --quiet --input {archive}")
        composed.configure()
        composed.shell(documented("Install with kustomize", "mkdir -p secrets"))
        commands = documented("docker compose", "docker compose up")
        composed.shell(commands.replace("docker compose up --build", "podman-compose up --detach --no-deps"))
        try:
            ready = await composed.until(
                "every service is healthy", lambda: all(composed.health(each) for each in SERVICES)
            )
            scored = await composed.until("nodes have different scores", composed.nodes_differ)
            with composed.tapping() as tapped:
                proposed = await composed.until("an eviction is run dry", lambda: '"dry_run"' in tapped.read_text())
            evicted = sum(each.succeeded for each in deployed.cluster.evictions())
            seconds = {"healthy": round(ready), "scored": round(scored), "dry_run": round(proposed)}
            print(
                json.dumps(
                    {
                        "seconds": seconds,
                        "evicted": evicted,
                        "setup": int(composed.shell("podman wait equipoise_setup_1")),
                    }
                )
            )
        finally:
            composed.shell("podman-compose down --volumes >&2")


if __name__ == "__main__":
    enter_own_network()
    asyncio.run(main(Path(sys.argv[1])))
