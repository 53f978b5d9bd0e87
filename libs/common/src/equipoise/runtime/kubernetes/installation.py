"""Whether another installation of Equipoise works in the cluster. Of two installations, the later one writes nothing.

The descheduler of each installation has a Lease in its own namespace, and proposes no evictions without it. The name of
the Lease is the same in all installations. The role permits listing only Leases of this name.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn

import msgspec

from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.runtime.kubernetes.client import LEASES, Forbidden, Kube, KubeError
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

PERIOD = 10.0
"""Seconds between two checks."""

ACTIVE = 600.0
"""Seconds after its last renewal for which a Lease counts as held. Long, because clocks differ, and a holder may be
suspended."""

UNCHECKED = "it was not yet checked whether there is another installation"

PROBLEM = "installation"
"""The key of the problem in /readyz."""


class OtherInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """Another installation that works in this cluster."""

    namespace: str
    older: bool
    """Whether it is older than this installation, which therefore writes nothing."""

    unreadable: str = ""
    """Why the Lease of the installation cannot be read. Then it is unknown whether it is in use."""


def other_installations(leases: Iterable[Lease], namespace: str, now: float) -> list[OtherInstallation]:
    """The other installations, the oldest first. `namespace`: that of this installation, which counts as
    the youngest while it has no Lease.

    A Lease that cannot be read may be in use, so this installation must not write if it is younger.
    """
    ordered = sorted(leases, key=_age_order)
    own = next((index for index, lease in enumerate(ordered) if lease.metadata.namespace == namespace), len(ordered))
    return [
        OtherInstallation(namespace=lease.metadata.namespace, older=index < own, unreadable=lease.metadata.unreadable)
        for index, lease in enumerate(ordered)
        if index != own and (_is_held(lease, now) or (lease.metadata.unreadable and index < own))
    ]


def _age_order(lease: Lease) -> tuple[datetime, str]:
    return lease.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC), lease.metadata.namespace


def _is_held(lease: Lease, now: float) -> bool:
    renewed = lease.spec.renew_time
    return bool(lease.spec.holder_identity) and renewed is not None and now - renewed.timestamp() < ACTIVE


async def read_other_installations(kube: Kube, namespace: str, now: float) -> list[OtherInstallation]:
    """Reads the Leases and returns the other installations. Raises KubeError."""
    leases = await kube.list(LEASES, field_selector=f"metadata.name={DESCHEDULER_LEASE}")
    return other_installations(leases, namespace, now)


def refusal(namespace: str, other: str, unreadable: str = "") -> str:
    """Why the installation in `namespace` writes nothing, as text. `unreadable`: see OtherInstallation."""
    if unreadable:
        return (
            f"the Lease {DESCHEDULER_LEASE} in namespace {other} is older, and cannot be read ({unreadable}): another "
            f"installation may work in this cluster, so the one in {namespace} evicts and annotates nothing. Delete it"
        )
    return (
        f"another installation of Equipoise works in this cluster, in namespace {other}, and is older: the one in "
        f"{namespace} evicts and annotates nothing. Delete one of them"
    )


@dataclass
class InstallationCheck:
    """Reports another installation in /readyz. While it does, its service must not write."""

    kube: Kube
    namespace: str
    clock: Clock
    health: Health
    problem: str = field(default=UNCHECKED, init=False)
    """Why the service must not write; empty if it may. A failed read does not change it."""

    _checked: bool = field(default=False, init=False)

    async def current_problem(self) -> str:
        """The problem. Checks first if there was no check yet."""
        if not self._checked:
            await self.check()
        return self.problem

    async def check(self) -> None:
        try:
            others = await read_other_installations(self.kube, self.namespace, self.clock.now())
            refusals = (refusal(self.namespace, other.namespace, other.unreadable) for other in others if other.older)
            self.problem, self._checked = next(refusals, ""), True
        except Forbidden as error:
            self.problem = f"it cannot be checked whether another installation works in this cluster: {error.message}"
            self._checked = True
        except KubeError as error:
            if not self._checked:
                self.problem = f"{UNCHECKED}: {error}"
        self.health.set_problem(PROBLEM, self.problem or None)

    async def run(self) -> NoReturn:
        """Checks periodically, after a first `check`."""
        while True:
            await self.clock.sleep(PERIOD)
            await self.check()
