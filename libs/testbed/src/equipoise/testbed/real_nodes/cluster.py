"""A cluster with real nodes. The control plane of the testbed, a DNS server and the nodes run in network namespaces."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import urlsplit

from equipoise.testbed.binaries.build import (
    COREDNS,
    HELM,
    NODE,
    Binaries,
    build,
    build_module,
    default_cache,
    minutes,
    node_programs,
)
from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.cluster import Cluster, ClusterError
from equipoise.testbed.objects import Manifest
from equipoise.testbed.processes.configuration import PrometheusConfiguration
from equipoise.testbed.real_nodes import dns, leftovers, node_files, objects
from equipoise.testbed.real_nodes.addresses import (
    HUB,
    SERVICES,
    node_address,
    node_name,
    pod_range,
)
from equipoise.testbed.real_nodes.certificates import create_certificates
from equipoise.testbed.real_nodes.images import Images
from equipoise.testbed.real_nodes.network import enter_private_network
from equipoise.testbed.real_nodes.requirements import REAL_NODES, VIRTUAL_MACHINE, check_machine, search_path
from equipoise.testbed.real_nodes.tree import NODE_TREE, debian_tree
from equipoise.testbed.real_nodes.virtual_machine.disk import MachineDisk, machine_disk
from equipoise.testbed.real_nodes.virtual_machine.machine import VirtualMachine
from equipoise.testbed.real_nodes.virtual_machine.systems import MachineSystem

NODE_SCRIPT = Path(__file__).with_name("node.sh")
SCRAPE_SECONDS = 30.0
"""Most installations have this interval. A kubelet measures pods every 10 to 20 seconds, at random."""
READY_SECONDS = 180.0
MACHINE_READY_SECONDS = 1800.0
"""A virtual machine boots in two minutes on two idle cores, and computes twenty times slower than the machine."""

LOG_LINES = 10
"""Number of lines of each log that an error shows if the nodes are not ready."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The programs, the file system of the nodes and the images. Getting them needs the network of the machine."""

    binaries: Binaries
    programs: Path
    """The folder of kubelet, kube-proxy and kubectl."""

    helm: Path
    coredns: Path
    tree: Path
    archives: tuple[Path, ...]
    """Archives of the images that each node has."""

    disk: MachineDisk | None
    """The disk of a virtual machine; None without one."""


def prepare(clone: Path | None, *, machine: MachineSystem | None = None, kubernetes: str = "") -> Prepared:
    """Take everything from the cache, or build it once. With a `clone`, this includes an image of Equipoise.

    `machine`: the system of a virtual machine; None for none.
    `kubernetes`: the minor version of the control plane and of the kubelets, such as 1.35. Default: the newest.
    Raises RealNodesError with everything that the machine lacks, BuildError and NoGoError.
    """
    check_machine(VIRTUAL_MACHINE if machine else REAL_NODES)
    leftovers.remove_leftovers()
    cache = default_cache()
    with Progress() as progress:
        images = Images(cache, progress)
        programs = build_module(node_programs(kubernetes) if kubernetes else NODE, cache=cache, progress=progress)
        archives = (images.sandbox(), images.busybox(), images.nats(), *([images.product(clone)] if clone else ()))
        return Prepared(
            binaries=build(kubernetes=kubernetes, progress=progress),
            programs=programs,
            helm=build_module(HELM, cache=cache, progress=progress) / "helm",
            coredns=build_module(COREDNS, cache=cache, progress=progress) / "coredns",
            tree=debian_tree(NODE_TREE, cache, progress),
            archives=archives,
            disk=machine_disk(machine, programs, archives, cache, progress) if machine else None,
        )


class RealCluster:
    """Use it with `async with`. All its processes end at the end of the block, or when this process ends.

    The constructor moves the current thread into a network namespace for good. So call it in the main thread, before
    other threads start.
    """

    def __init__(self, prepared: Prepared, nodes: int) -> None:
        """`nodes` is at least 1. If a disk was prepared, the next node is a virtual machine."""
        self._prepared = prepared
        self._nodes = range(1, nodes + 1 + (prepared.disk is not None))
        self._network = enter_private_network(len(self._nodes))
        self._name = leftovers.own_name()
        self._pids: dict[str, int] = {}
        self.directory = leftovers.create_folder(self._name)
        self._certificates = create_certificates(self.directory / "cluster" / "certs", len(self._nodes))
        self._machine: VirtualMachine | None = None
        if prepared.disk is not None:
            folder = self.directory / "nodes" / node_name(nodes + 1)
            self._machine = VirtualMachine(number=nodes + 1, folder=folder, disk=prepared.disk)
        self._ready_seconds = MACHINE_READY_SECONDS if self._machine else READY_SECONDS
        self.cluster = self._control_plane()

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(self._ready_seconds):
                await self._start()
        except TimeoutError:
            await asyncio.to_thread(self.stop)
            raise ClusterError(f"the nodes are not ready after {self._ready_seconds:g} s\n{self._tails}") from None
        except BaseException:
            await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def prometheus_url(self) -> str:
        """The address of Prometheus for pods."""
        return f"http://{HUB}:{urlsplit(self.cluster.prometheus_url).port}"

    @property
    def kubectl(self) -> Path:
        """A program that runs kubectl in the network of the cluster, as administrator."""
        return self.directory / "kubectl"

    @property
    def helm(self) -> Path:
        """A program that runs helm in the network of the cluster, as administrator."""
        return self.directory / "helm"

    @property
    def equipoise(self) -> Path:
        """A program that runs the equipoise of this environment in the network of the cluster, as administrator."""
        return self.directory / "equipoise"

    def node_log(self, node: str, program: str) -> Path:
        """The log of `containerd`, `kubelet` or `kube-proxy` of a node; in a virtual machine they share one."""
        if self._is_virtual(node):
            return self._virtual_machine.journal
        return self.directory / "nodes" / node / "changes" / "var" / "log" / f"{program}.log"

    async def run(self, *argv: str | Path, stdin: IO[bytes] | None = None) -> str:
        """The standard output of a program, which gets KUBECONFIG. Raises ClusterError with all of its output."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            stdin=stdin or asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = (part.decode(errors="replace") for part in await process.communicate())
        if process.returncode != 0:
            raise ClusterError(f"`{' '.join(map(str, argv[:4]))} …` failed:\n{errors}{output}")
        return output

    async def import_image(self, node: str, archive: Path, name: str) -> None:
        """Give a node an image of an OCI archive, by its digest: `name`@sha256:…. Raises ClusterError."""
        with archive.open("rb") as file:
            await self.run(
                *self._inside(node), "/usr/bin/ctr", "--namespace=k8s.io", "images", "import", f"--base-name={name}",
                "--digests", "-", stdin=file,
            )  # fmt: skip

    async def restart_kubelet(self, node: str) -> None:
        """Kill the kubelet of a node, which the node starts again a second later. Raises ClusterError."""
        await self.run(*self._inside(node), "/usr/bin/pkill", "--signal", "KILL", "--exact", "kubelet")

    def stop_dns(self) -> None:
        """End the DNS server."""
        self.cluster.guard.stop(self._pids.pop("dns"))

    def start_dns(self) -> None:
        """Start the DNS server for the Services of the cluster."""
        files = {"corefile": self.directory / "Corefile", "kubeconfig": self.cluster.kubeconfig}
        self._launch("dns", dns.command_line(self._prepared.coredns, address=HUB, **files))

    def power_off(self, node: str) -> None:
        """End a node and its containers at once. What is on its disk remains."""
        self.cluster.guard.stop(self._pids.pop(node), number=signal.SIGKILL)
        leftovers.remove_groups(f"{self._name}/{node}")

    def power_on(self, node: str, kubelet: Mapping[str, Any] | None = None) -> None:
        """Start a node that was powered off, with other settings of its kubelet if `kubelet` has some."""
        self._launch_node(next(number for number in self._nodes if node_name(number) == node), kubelet)

    @property
    def virtual_node(self) -> str:
        """The name of the node that is a virtual machine. Raises ClusterError if there is none."""
        return node_name(self._virtual_machine.number)

    @property
    def _virtual_machine(self) -> VirtualMachine:
        if self._machine is None:
            raise ClusterError("this cluster has no virtual machine")
        return self._machine

    def _is_virtual(self, node: str) -> bool:
        return self._machine is not None and node == self.virtual_node

    def _inside(self, node: str) -> tuple[str, ...]:
        """The first words of a command that runs in a node."""
        if self._is_virtual(node):
            raise ClusterError(f"{node} is a virtual machine: commands run in its pods, by kubectl exec")
        pid = self._pids[node]
        return ("nsenter", f"--target={pid}", "--mount", f"--pid=/proc/{pid}/ns/pid_for_children")

    def check(self) -> None:
        """Raise ClusterError when a component or a node has ended."""
        self.cluster.check()
        for name, pid in self._pids.items():
            if (code := self.cluster.guard.exit_code(pid)) is not None:
                lines = self._tail(name) if name in map(node_name, self._nodes) else str(self.cluster.log(name))
                raise ClusterError(f"{name} has ended with code {code}: {lines}")

    def stop(self) -> None:
        """End all processes, and remove the cgroups and files. The network ends with this process."""
        self._tails = "\n".join(self._tail(node_name(number)) for number in self._nodes)
        self.cluster.stop()
        leftovers.remove_groups(self._name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _control_plane(self) -> Cluster:
        certificates = self._certificates
        token = self.directory / "cluster" / "serviceaccounts" / objects.MONITORING / objects.PROMETHEUS / "token"
        return Cluster(
            binaries=self._prepared.binaries,
            directory=self.directory / "cluster",
            kwok=False,
            address="0.0.0.0",  # noqa: S104  in a network namespace of its own
            prometheus=PrometheusConfiguration(
                scrape_interval=SCRAPE_SECONDS,
                scrape_configs=objects.kubelet_scrapes(len(self._nodes), certificates.ca, token),
            ),
            replaced={
                "kube-apiserver": [
                    f"--advertise-address={HUB}",
                    f"--service-cluster-ip-range={SERVICES}",
                    "--endpoint-reconciler-type=lease",
                    "--authorization-mode=Node,RBAC",
                    "--disable-admission-plugins=",
                    "--enable-admission-plugins=NodeRestriction",
                    "--allow-privileged=true",
                    # Otherwise a token for an hour, as Kubernetes mounts it by itself, is valid for a year.
                    "--service-account-extend-token-expiration=false",
                    f"--client-ca-file={certificates.ca}",
                    f"--kubelet-certificate-authority={certificates.ca}",
                    f"--kubelet-client-certificate={certificates.certificate('kubelet-client')}",
                    f"--kubelet-client-key={certificates.key('kubelet-client')}",
                    "--kubelet-preferred-address-types=InternalIP",
                ],
                "kube-controller-manager": [
                    f"--root-ca-file={certificates.ca}",
                    "--use-service-account-credentials=true",
                ],
            },
        )

    async def _start(self) -> None:
        await self.cluster.__aenter__()
        await self.cluster.apply(objects.first_objects())
        await self.cluster.service_account_token(objects.MONITORING, objects.PROMETHEUS)
        self._write_programs()
        self.start_dns()
        for number in self._nodes:
            self._launch_node(number)
        self._launch_proxy()
        began = time.monotonic()
        with Progress() as progress:

            def all_are_ready(nodes: Manifest) -> bool:
                self.check()
                ready = sum(_is_ready(node) for node in nodes["items"])
                if self._machine is not None:
                    passed = minutes(time.monotonic() - began)
                    line = self._machine.last_line
                    progress.show(f"{ready} of {len(self._nodes)} nodes are ready, {passed} {line}".rstrip())
                return ready == len(self._nodes)

            await self.cluster.wait(
                "/api/v1/nodes",
                all_are_ready,
                timeout=self._ready_seconds,
                what=f"{len(self._nodes)} nodes are ready",
            )

    def _launch(self, name: str, argv: list[str | Path], **environment: str) -> None:
        guard = self.cluster.guard
        self._pids[name] = guard.start(
            argv, log=self.cluster.log(name), environment={"PATH": search_path(), **environment}
        )

    def _launch_node(self, number: int, kubelet: Mapping[str, Any] | None = None) -> None:
        name, data = node_name(number), self.directory / "nodes" / node_name(number)
        port = urlsplit(self.cluster.url).port
        assert port is not None
        if self._is_virtual(name):
            machine = self._virtual_machine
            settings = {"cgroupDriver": "systemd", **(kubelet or {})}
            files = node_files.node_files(number, self._certificates, port, settings)
            machine.write_files(files, others=number - 1)
            groups = " ".join(map(str, leftovers.create_groups(self._name, name)))
            self._launch(name, machine.command, GROUPS=groups, **machine.environment)
            return
        for path, text in node_files.node_files(number, self._certificates, port, kubelet).items():
            file = data / "changes" / path.removeprefix("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        others = [other for other in self._nodes if other != number]
        self._launch(
            name,
            ["/bin/sh", NODE_SCRIPT],
            NAME=name,
            ADDRESS=node_address(number),
            HUB=HUB,
            HUB_NETWORK=str(self._network),
            ROUTES="\n".join(f"{pod_range(other)} {node_address(other)}" for other in others),
            GROUPS=" ".join(map(str, leftovers.create_groups(self._name, name))),
            TREE=str(self._prepared.tree),
            DATA=str(data),
            PROGRAMS=str(self._prepared.programs),
            IMAGES=" ".join(map(str, self._prepared.archives)),
        )

    def _launch_proxy(self) -> None:
        """Start a kube-proxy for the API server and the scheduler, which call Services."""
        folder = self._certificates.folder
        kubeconfig, configuration = folder / "kube-proxy.kubeconfig", folder / "kube-proxy.yaml"
        document = node_files.kubeconfig(self.cluster.url, self._certificates, "kube-proxy", str(folder))
        kubeconfig.write_text(json.dumps(document))
        proxy = node_files.kube_proxy(node_name(1), str(kubeconfig), address="127.0.0.1")
        configuration.write_text(json.dumps(proxy))
        self._launch("kube-proxy", [self._prepared.programs / "kube-proxy", f"--config={configuration}"])

    def _write_programs(self) -> None:
        enter = f"nsenter --net={self._network} env KUBECONFIG={self.cluster.kubeconfig} PATH={self.directory}:$PATH"
        programs = {
            self.kubectl: self._prepared.programs / "kubectl",
            self.helm: self._prepared.helm,
            self.equipoise: Path(sys.executable).with_name("equipoise"),
        }
        for file, program in programs.items():
            file.write_text(f'#!/bin/sh\nexec {enter} {program} "$@"\n')
            file.chmod(0o700)

    def _tail(self, node: str) -> str:
        lines = []
        logs = [self.cluster.log(node), self.node_log(node, "containerd"), self.node_log(node, "kubelet")]
        if self._is_virtual(node):
            logs = [self.cluster.log(node), self._virtual_machine.console, self._virtual_machine.journal]
        for log in logs:
            text = log.read_text(errors="replace") if log.exists() else ""
            lines += [f"the last lines of {log}:", *(f"  {line[:400]}" for line in text.splitlines()[-LOG_LINES:])]
        return "\n".join(lines)


def _is_ready(node: Manifest) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
