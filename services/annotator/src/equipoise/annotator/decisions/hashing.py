"""Divides objects among replicas, and moments among objects, by hash: everybody comes to the same answer alone."""

from collections.abc import Collection
from hashlib import blake2b


def owner(key: str, members: Collection[str]) -> str | None:
    """The one member that writes this object; None when there are no members.

    Rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998): a member that comes takes only what is
    its own from now on, and what a member leaves is spread over the others.
    """
    return max(members, key=lambda member: (_hash(f"{member}\n{key}"), member), default=None)


def phase(key: str) -> float:
    """0 ≤ phase < 1: where in a period this object's turn is."""
    return _hash(key) / 2**64


def pause(per_second: float, members: int) -> float:
    """Seconds between two requests of one replica, so that all of them together keep the rate."""
    return max(1, members) / per_second


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
