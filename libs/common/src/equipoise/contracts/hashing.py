"""Divides objects among replicas, and a period among objects, by hash.

Every replica computes the same result without asking the others.
"""

from collections.abc import Collection
from hashlib import blake2b


def owner(key: str, members: Collection[str]) -> str | None:
    """The member that writes this object; None if there are no members.

    Rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998): a new member only takes objects over, and
    the objects of a lost member are spread over the others.
    """
    return max(members, key=lambda member: (_hash(f"{member}\n{key}"), member), default=None)


def phase(key: str) -> float:
    """The fraction of a period (0 ≤ phase < 1) after which this object is refreshed."""
    return _hash(key) / 2**64


def request_interval(per_second: float, members: int) -> float:
    """Seconds between two requests of one replica, so that all of them together keep the rate."""
    return max(1, members) / per_second


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
