"""The supported minor versions of Kubernetes: those of the chart, of `doctor`, of the testbed and of the docs."""

OLDEST_KUBERNETES = (1, 30)
"""The oldest supported version. Its API server has ValidatingAdmissionPolicies, which limit what services may evict."""

NEWEST_KUBERNETES = (1, 37)
"""The newest version of the tests."""

OLDEST_WITH_MUTATING_POLICIES = (1, 36)
"""The oldest version whose API server has MutatingAdmissionPolicies without a feature gate."""


def minor_versions(oldest: tuple[int, int] = OLDEST_KUBERNETES) -> list[str]:
    """All supported minor versions from `oldest` on: 1.30, 1.31, …"""
    (major, first), (_, newest) = oldest, NEWEST_KUBERNETES
    return [f"{major}.{minor}" for minor in range(first, newest + 1)]
