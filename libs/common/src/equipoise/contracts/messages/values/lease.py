"""The term of a leader, for messages that only the current leader may publish."""

from equipoise.contracts.bounds import Count
from equipoise.contracts.messages.message import Value

LONGEST_LEASE = 600.0
"""Seconds for which a Lease may be held without renewal. The policy `equipoise-lease-fence` refuses longer
durations."""


class LeaseEpoch(Value, frozen=True, kw_only=True, order=True):
    """One term of one leader: its Lease's UID, leaseTransitions and holder."""

    lease_uid: str
    transitions: Count
    holder: str
