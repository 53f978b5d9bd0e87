"""Whether the cluster has a metrics-server."""

from equipoise.runtime.kubernetes.client import Kube, KubeError


async def has_metrics_server(kube: Kube) -> bool:
    """Whether metrics-server responds."""
    try:
        return bool(await kube.served_versions("metrics.k8s.io", "NodeMetrics"))
    except KubeError:
        return False  # its API is registered, but metrics-server does not respond
