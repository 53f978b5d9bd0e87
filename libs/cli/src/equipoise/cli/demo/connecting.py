"""How to connect to a demo that keeps running."""

import sys
from pathlib import Path

from equipoise.testbed.cluster import Cluster


def how_to_connect(cluster: Cluster) -> str:
    """The commands to connect to the running demo, which can be pasted unchanged."""
    return f"""
The cluster and the services keep running. To connect (Ctrl-C stops everything):
  export PATH={Path(sys.executable).parent}:$PATH
  export KUBECONFIG={cluster.kubeconfig}
  export EQUIPOISE_CONFIG={cluster.directory / "equipoise.yaml"}
  export EQUIPOISE_NATS__URL={cluster.nats_url}
  equipoise status                        # limits in use, recent evictions
  equipoise plan                          # what would move now, and why
  equipoise tap eviction                  # messages as they come
  equipoise explain eviction NAMESPACE/POD
  equipoise explain node NAME
  equipoise report --since 1h
  equipoise doctor
  kubectl get nodes -o yaml | grep equipoise.dev/load
  Prometheus: {cluster.prometheus_url}    logs: {cluster.directory}"""
