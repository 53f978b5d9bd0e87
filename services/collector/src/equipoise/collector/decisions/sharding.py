"""Divides nodes and workloads among shards, and shards among replicas. Everybody comes to the same answer alone."""

from functools import lru_cache
from hashlib import blake2b

LEASE = "equipoise-collector"

PATIENCE = 5.0
"""Seconds: longer than between two looks of a replica that waits for a Lease (at most 4.4), and short enough that, with
its life of 15, a lost share is taken over within 30."""


@lru_cache(maxsize=2**16)
def shard_of(name: str, shards: int) -> int:
    """The shard (0..shards − 1) that tells of this node or workload: a function of the two and nothing else.

    Rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998): one more shard takes its share from all
    others, and nothing moves among those.
    """
    return max(range(shards), key=lambda shard: blake2b(f"{shard}\n{name}".encode(), digest_size=8).digest())


def shard_name(family: str, shard: int, shards: int) -> str:
    """As its cycles call it: the whole has no number."""
    return family if shards == 1 else f"{family}-{shard}"


def lease_name(family: str, whole: str, shard: int, shards: int) -> str:
    """The Lease whose holder tells of this shard; `whole` is the family that needs no name."""
    parts = [LEASE, *([] if family == whole else [family]), *([] if shards == 1 else [str(shard)])]
    return "-".join(parts)


def dissolved(name: str, family: str, shards: int) -> bool:
    """Is this a shard that there was when the family was divided otherwise? Nobody tells of it any more."""
    number = name.removeprefix(f"{family}-")
    ours = name == family or (number != name and number.isdecimal())
    return ours and name not in {shard_name(family, shard, shards) for shard in range(shards)}


def patience(held: int, shards: int, replicas: int) -> float:
    """Seconds for which a free shard is left to others by a replica that holds so many already."""
    return 0.0 if held == 0 or held < shards // replicas else PATIENCE


def fair_share(shards: int, replicas: int) -> int:
    """The most that one replica holds while others have room."""
    return -(-shards // replicas)
