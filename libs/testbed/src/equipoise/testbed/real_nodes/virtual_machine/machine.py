"""A virtual machine of QEMU without hardware virtualization, which few machines of this kind offer."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from equipoise.contracts.plain_text import plain_text
from equipoise.testbed.real_nodes.addresses import HUB, node_address, node_name, pod_range
from equipoise.testbed.real_nodes.node_files import FOLDER
from equipoise.testbed.real_nodes.virtual_machine.disk import MachineDisk

LINE_LENGTH = 100
"""Characters of a line that shows progress."""

START_SCRIPT = Path(__file__).with_name("start.sh")
CPUS = "4,cores=2,threads=2"
"""Two cores with two threads each. Of two CPUs, the agent could take none away: it always leaves two to best-effort
pods. The static CPU manager gives a pod with two CPUs the last core, which the agent would also give to batch pods."""

MEMORY_MEBIBYTES = 2048
KERNEL_ARGUMENTS = (
    "root=/dev/vda", "rw", "console=ttyS0", "quiet", "net.ifnames=0", "psi=1", "mitigations=off",
    "panic=-1", "rcupdate.rcu_cpu_stall_suppress=1", "systemd.show_status=true",
    "systemd.default_timeout_start_sec=900", "TERM=dumb",
)  # fmt: skip
"""Debian's kernel reports pressure only with psi=1. A CPU whose thread waits for other work looks stalled.
After a panic it restarts, which ends QEMU."""


@dataclass(frozen=True, kw_only=True)
class VirtualMachine:
    """A node with its own folder."""

    number: int
    folder: Path
    disk: MachineDisk

    @property
    def console(self) -> Path:
        """What kernel and systemd print."""
        return self.folder / "console.log"

    @property
    def last_line(self) -> str:
        """The last line on the console: how far it has booted."""
        lines = self.console.read_text(errors="replace").splitlines() if self.console.exists() else []
        return next((plain_text(line.strip(), LINE_LENGTH) for line in reversed(lines) if line.strip()), "")

    @property
    def journal(self) -> Path:
        """The logs of containerd, kubelet and kube-proxy."""
        return self.folder / "journal.log"

    def write_files(self, files: Mapping[str, str], others: int) -> None:
        """The second disk: an archive of the files of the node. `others`: the number of nodes before this one."""
        address = {"NAME": node_name(self.number), "ADDRESS": node_address(self.number), "HUB": HUB}
        routes = "".join(f"{pod_range(other)} {node_address(other)}\n" for other in range(1, others + 1))
        added = {
            f"{FOLDER}/node.env": "".join(f"{name}={value}\n" for name, value in address.items()),
            f"{FOLDER}/routes": routes,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(self._files, "w") as archive:
            for path, text in {**files, **added}.items():
                content = text.encode()
                member = tarfile.TarInfo(path.removeprefix("/"))
                member.size, member.mode = len(content), 0o600 if path.endswith(".key") else 0o644
                archive.addfile(member, io.BytesIO(content))

    @property
    def command(self) -> list[str | Path]:
        """The program that starts it."""
        return ["/bin/sh", START_SCRIPT, *self._qemu()]

    @property
    def environment(self) -> dict[str, str]:
        return {"NAME": node_name(self.number), "SOURCE": str(self.disk.image), "DISK": str(self._own_disk)}

    @property
    def _files(self) -> Path:
        return self.folder / "files.tar"

    @property
    def _own_disk(self) -> Path:
        return self.folder / "disk"

    def _qemu(self) -> list[str]:
        kernel_arguments = " ".join((*KERNEL_ARGUMENTS, *self.disk.system.kernel_arguments))
        return [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", CPUS,
            "-m", str(MEMORY_MEBIBYTES), "-display", "none", "-monitor", "none", "-no-reboot",
            "-serial", f"file:{self.console}", "-serial", f"file:{self.journal}",
            "-kernel", str(self.disk.kernel), "-initrd", str(self.disk.initrd), "-append", kernel_arguments,
            "-drive", f"file={self._own_disk},if=virtio,format=raw,cache=unsafe",
            "-drive", f"file={self._files},if=virtio,format=raw,readonly=on",
            "-netdev", f"tap,id=network,ifname={node_name(self.number)},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=network,mac=52:54:00:77:00:{self.number:02x}",
            "-device", "virtio-rng-pci",
        ]  # fmt: skip
