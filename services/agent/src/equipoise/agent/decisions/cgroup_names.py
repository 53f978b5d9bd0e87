"""The names of pods' cgroups: those of the kubelet with the driver cgroupfs, and of systemd."""

import re
from typing import Literal

QosGroup = Literal["guaranteed", "burstable", "besteffort"]

KUBEPODS = (
    "kubepods.slice",
    "kubepods",
    "kubelet.slice/kubelet-kubepods.slice",  # kind
    "kubelet/kubepods",
    "kubelet/kubepods.slice",
    "kubelet.slice/kubepods.slice",
)
"""The paths at which the group of all pods can be, below the root of a hierarchy."""

_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:kubelet-)?(?:kubepods-)?(?:(?:burstable|besteffort)-)?pod({_UID})(?:\.slice)?")
_QOS = re.compile(r"(?:(?:kubelet-)?kubepods-)?(burstable|besteffort)(?:\.slice)?")
_CONTAINER = re.compile(r"(?:(?!crio-conmon-)[a-z-]+-)?[0-9a-f]{64}(?:\.scope)?|container")


def pod_uid(name: str) -> str | None:
    """The uid of the pod whose group has this name; of a static pod the hash of its manifest. None: it is no pod's.

    systemd separates the parts of a name with dashes, so those of a uid are underscores there.
    """
    match = _POD.fullmatch(name)
    return match[1].replace("_", "-") if match else None


def qos_group(name: str) -> QosGroup | None:
    """None: the group is not that of a QoS class."""
    match = _QOS.fullmatch(name)
    if match is None:
        return None
    return "burstable" if match[1] == "burstable" else "besteffort"


def is_container(name: str) -> bool:
    """crun adds a group `container` below that of a container. CRI-O has another one for its monitor."""
    return _CONTAINER.fullmatch(name) is not None
