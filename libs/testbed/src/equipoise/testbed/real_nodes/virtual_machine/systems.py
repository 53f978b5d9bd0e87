"""The systems that a virtual machine can boot: each is a kernel with packages of its own, and how the kernel starts."""

from collections.abc import Mapping
from dataclasses import dataclass

DEBIAN_KERNEL = "linux-image-cloud-amd64"


@dataclass(frozen=True, kw_only=True)
class MachineSystem:
    """The differences of a system from the others: all have the packages of a node, systemd and kernel arguments."""

    packages: tuple[str, ...]
    """The kernel and more. A package of an older Debian is named as `package/suite`."""

    older_suites: tuple[str, ...] = ()
    kernel_arguments: tuple[str, ...] = ()


CGROUP_V2 = MachineSystem(packages=(DEBIAN_KERNEL,))
CGROUP_V1 = MachineSystem(
    packages=(f"{DEBIAN_KERNEL}/bookworm",),
    older_suites=("bookworm",),
    kernel_arguments=("systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"),
)
"""Linux 6.1. The kernel of Debian 13 has no memory and no cpuset on cgroup v1. Its systemd, 257, can still mount v1."""

SELINUX = MachineSystem(
    packages=(DEBIAN_KERNEL, "policycoreutils", "selinux-policy-default"),
    kernel_arguments=("security=selinux", "enforcing=1"),
)
"""cgroup v2 with SELinux, which refuses what its policy does not allow."""

SYSTEMS: Mapping[str, MachineSystem] = {"cgroup-v2": CGROUP_V2, "cgroup-v1": CGROUP_V1, "selinux": SELINUX}
DEFAULT_SYSTEM = "cgroup-v2"
