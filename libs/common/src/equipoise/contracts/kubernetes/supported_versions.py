"""The supported minor versions of Kubernetes: those of the chart, of `doctor`, of the testbed and of the docs."""

OLDEST_KUBERNETES = (1, 30)
"""The oldest supported version. Its API server has ValidatingAdmissionPolicies, which limit what services may evict."""

NEWEST_KUBERNETES = (1, 37)
"""The newest version of the tests."""


def minor_versions() -> list[str]:
    """All supported minor versions, the oldest first: 1.30, 1.31, …"""
    (major, oldest), (_, newest) = OLDEST_KUBERNETES, NEWEST_KUBERNETES
    return [f"{major}.{minor}" for minor in range(oldest, newest + 1)]
