"""Which leader says something, where only the one that leads may."""

from equipoise.contracts.messages.message import Value


class LeaseEpoch(Value, frozen=True, kw_only=True, order=True):
    """Which leader spoke: its Lease's UID, leaseTransitions and holder."""

    lease_uid: str
    transitions: int
    holder: str
