"""The term of a leader, for messages that only the current leader may publish."""

from equipoise.contracts.messages.message import Value


class LeaseEpoch(Value, frozen=True, kw_only=True, order=True):
    """One term of one leader: its Lease's UID, leaseTransitions and holder."""

    lease_uid: str
    transitions: int
    holder: str
