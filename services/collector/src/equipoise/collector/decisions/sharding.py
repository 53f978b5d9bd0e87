"""Divides nodes and workloads into shards, and shards among replicas. Every replica computes the same result alone."""

from functools import lru_cache
from hashlib import blake2b

LEASE = "equipoise-collector"


@lru_cache(maxsize=2**16)
def shard_of(name: str, shards: int) -> int:
    """The shard (0..shards − 1) of this node or workload: a function of the two and nothing else.

    Rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998): one more shard takes its share from all
    others, and nothing moves among those.
    """
    return max(range(shards), key=lambda shard: blake2b(f"{shard}\n{name}".encode(), digest_size=8).digest())


def shard_name(family: str, shard: int, shards: int) -> str:
    """The name of a shard in messages: that of the family, such as `all`, or `all-2` if there are several shards."""
    return family if shards == 1 else f"{family}-{shard}"


def lease_name(family: str, default_family: str, shard: int, shards: int) -> str:
    """The Lease of this shard; the default family is left out of the name."""
    parts = [LEASE, *([] if family == default_family else [family]), *([] if shards == 1 else [str(shard)])]
    return "-".join(parts)


def is_obsolete(name: str, family: str, shards: int) -> bool:
    """True for a shard of this family that exists only with another number of shards."""
    number = name.removeprefix(f"{family}-")
    ours = name == family or (number != name and number.isdecimal())
    return ours and name not in {shard_name(family, shard, shards) for shard in range(shards)}
