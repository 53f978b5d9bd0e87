"""Which parts of co-location are installed in the cluster, by their ServiceAccounts."""

import msgspec

from equipoise.runtime.kubernetes.client import SERVICE_ACCOUNTS, Kube, find

RECLAIMER = "equipoise-reclaimer"
AGENT = "equipoise-agent"
"""RECLAIMER and AGENT are names of ServiceAccounts."""


class InstalledParts(msgspec.Struct, frozen=True, kw_only=True):
    reclaimer: bool = False
    agents: str = ""
    """The namespace of the agents, which have one of their own; empty if no agent is installed."""


async def installed_parts(kube: Kube, namespace: str) -> InstalledParts:
    """The installed parts. `namespace`: the namespace of Equipoise.

    Raises KubeError, and its subclass Forbidden if the ServiceAccounts may not be read.
    """
    reclaimer = await find(kube, SERVICE_ACCOUNTS, RECLAIMER, namespace) is not None
    agents = await kube.list(SERVICE_ACCOUNTS, field_selector=f"metadata.name={AGENT}")
    return InstalledParts(reclaimer=reclaimer, agents=agents[0].metadata.namespace if agents else "")
