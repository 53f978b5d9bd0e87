"""Finds the groups of the node's pods: cgroup v1 and v2, the drivers cgroupfs and systemd."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import msgspec

from equipoise.agent.decisions.cgroup_names import KUBEPODS, QosGroup, is_container, pod_uid, qos_group
from equipoise.agent.shell.cgroups.cgroup_files import GONE

Controller = Literal["cpu", "cpuacct", "cpuset", "memory"]


class PodCgroup(msgspec.Struct, frozen=True):
    """A pod's group. Paths are relative to a hierarchy: they are the same in all of them."""

    uid: str
    qos: QosGroup
    path: str


class PodGroups(msgspec.Struct, frozen=True):
    """All groups of the kubelet at one moment."""

    kubepods: str
    best_effort: str | None
    pods: dict[str, PodCgroup]
    """The groups of pods, by UID."""


class CgroupTree:
    """The cgroups below one root, such as /sys/fs/cgroup."""

    def __init__(self, root: str, parent: str = "") -> None:
        self._root = root
        self._parents = (parent.strip("/"),) if parent else KUBEPODS
        # A machine with both versions has cgroup.controllers too, but not at the root, and v1 has the controllers.
        self.version: Literal[1, 2] = 2 if os.path.exists(f"{root}/cgroup.controllers") else 1
        self._names: dict[str, str | None] = {}
        self.error = ""
        """The reason why the last call of `groups` could not list all groups; empty if it could."""

    def hierarchy(self, controller: Controller) -> str:
        return self._root if self.version == 2 else f"{self._root}/{controller}"

    def has(self, controller: Controller) -> bool:
        if self.version == 1:
            return os.path.isdir(self.hierarchy(controller))
        with suppress(OSError), open(f"{self._root}/cgroup.controllers", encoding="ascii") as file:
            return controller in file.read().split()
        return False

    @property
    def pressure_hierarchy(self) -> str:
        """The hierarchy with the pressure of each group. On v1 only the unified hierarchy, if there is one, has it."""
        return self._root if self.version == 2 else f"{self._root}/unified"

    def groups(self) -> PodGroups | None:
        """The groups of the kubelet. None if there are none, because this is no node with a kubelet or the root is
        wrong, and if they cannot be listed."""
        top = self.hierarchy("cpu")
        self.error = ""
        for kubepods in self._parents:
            if os.path.isdir(f"{top}/{kubepods}"):
                groups = self._groups(top, kubepods)
                return None if self.error else groups
        return None

    def _groups(self, top: str, kubepods: str) -> PodGroups:
        pods: dict[str, PodCgroup] = {}
        best_effort = None
        classes: list[tuple[QosGroup, str]] = []
        for name in self._directories(f"{top}/{kubepods}"):
            if (qos := qos_group(name)) is not None:
                classes.append((qos, f"{kubepods}/{name}"))
                best_effort = f"{kubepods}/{name}" if qos == "besteffort" else best_effort
            elif (uid := self._uid(name)) is not None:
                pods[uid] = PodCgroup(uid, "guaranteed", f"{kubepods}/{name}")
        for qos, path in classes:
            for name in self._directories(f"{top}/{path}"):
                if (uid := self._uid(name)) is not None:
                    pods[uid] = PodCgroup(uid, qos, f"{path}/{name}")
        return PodGroups(kubepods, best_effort, pods)

    def _uid(self, name: str) -> str | None:
        if name not in self._names:
            if len(self._names) > 10_000:  # names of pods that are gone
                self._names.clear()
            self._names[name] = pod_uid(name)
        return self._names[name]

    def containers(self, controller: Controller, path: str) -> list[str]:
        """The groups of containers below the group of a pod, parents first."""
        paths = []
        for name in self._directories(f"{self.hierarchy(controller)}/{path}"):
            if is_container(name):
                below = f"{path}/{name}"
                paths += [below, *self.containers(controller, below)]
        return paths

    def _directories(self, path: str) -> Iterator[str]:
        """The names of the groups below this one; nothing if the group is gone or disappears while it is read."""
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield entry.name
        except OSError as error:
            if error.errno not in GONE:
                self.error = f"{path}: {os.strerror(error.errno or 0)}"
