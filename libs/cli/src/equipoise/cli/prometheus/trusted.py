"""The Prometheus servers of a cluster, by whether an administrator gave them access to the metrics of nodes."""

from collections.abc import Sequence

import msgspec

from equipoise.cli.prometheus.access import PrometheusServer, not_examined, prometheus_servers
from equipoise.contracts.kubernetes.objects.access import AccessReview, ResourceAttributes, account_review
from equipoise.runtime.kubernetes.client import ACCESS_REVIEWS, Kube

NAMED = 10
"""The maximum number of servers that a message names."""

NODE_METRICS = ResourceAttributes(verb="get", resource="nodes", subresource="metrics")


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """The Prometheus servers of a cluster."""

    trusted: list[PrometheusServer]
    """Servers of which every ServiceAccount may read nodes/metrics."""

    others: list[PrometheusServer]
    """All other servers. Anybody may have installed them."""

    left_out: int = 0
    """The number of Services that were not examined, because the cluster has too many of these names."""

    @property
    def not_used(self) -> str:
        """The servers that may not be used, and the reason, as an addition to a sentence; empty if there are none."""
        why = [f"their accounts may not read nodes/metrics: {names_of(self.others)}"] if self.others else []
        if self.left_out:
            why.append(not_examined(self.left_out))
        return f" (not used: {'; '.join(why)})" if why else ""


async def known_servers(kube: Kube) -> Servers:
    """The servers that Services of the cluster name. Raises KubeError."""
    servers, left_out = await prometheus_servers(kube)
    trusted = [server for server in servers if await _reads_nodes(kube, server)]
    return Servers(trusted=trusted, others=[server for server in servers if server not in trusted], left_out=left_out)


async def _reads_nodes(kube: Kube, server: PrometheusServer) -> bool:
    """Whether the ServiceAccount of each of the server's pods may read the metrics of nodes."""
    namespace = server.address.namespace
    reviews = [AccessReview(spec=account_review(namespace, name, NODE_METRICS)) for name in server.accounts]
    return bool(reviews) and all([(await kube.create(ACCESS_REVIEWS, review)).status.allowed for review in reviews])


def names_of(servers: Sequence[PrometheusServer]) -> str:
    """The addresses, each once; of many, the first ones and their number."""
    names = list(dict.fromkeys(str(server.address) for server in servers))
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more])
