"""The addresses of a cluster with real nodes. They exist only in network namespaces of the testbed."""

HUB = "10.77.0.1"
"""The control plane, on the bridge that connects the nodes."""

HUB_PREFIX = 24
BRIDGE = "br0"
PODS = "10.78.0.0/16"
SERVICES = "10.79.0.0/16"
API_SERVER_SERVICE = "10.79.0.1"
"""The Service `kubernetes`: the first address of the range."""

DNS_SERVICE = "10.79.0.10"
MAXIMUM_NODES = 20


def node_name(number: int) -> str:
    """`number` counts from 1."""
    return f"n{number}"


def node_address(number: int) -> str:
    return f"10.77.0.{10 + number}"


def pod_range(number: int) -> str:
    return f"10.78.{number}.0/24"
