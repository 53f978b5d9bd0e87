"""The limits that the budget of a campaign replaces."""

CAMPAIGN_LIMITS = frozenset({"evictionsPerCluster", "evictionsPerNamespace", "unusualRate"})
"""Their names in the configuration. They limit evictions per time; all other limits also hold in a campaign."""
