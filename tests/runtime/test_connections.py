"""Which connection is closed for a new one."""

from equipoise.contracts.connection_limits import ConnectionPool


def test_below_the_limits_no_connection_is_displaced() -> None:
    """Each is in the pool until it is removed."""
    pool = ConnectionPool[str](total=3, per_address=2)

    assert [pool.add("a1", "a"), pool.add("a2", "a"), pool.add("b1", "b")] == [None, None, None]
    pool.remove("a1")
    pool.remove("a1")

    assert (len(pool), "a1" in pool, "a2" in pool) == (2, False, True)
    assert pool.add("a3", "a") is None


def test_an_address_above_its_limit_displaces_its_own_oldest_connection() -> None:
    """The other addresses keep theirs."""
    pool = ConnectionPool[str](total=9, per_address=2)
    for connection in ("b1", "a1", "a2"):
        pool.add(connection, connection[0])

    assert [pool.add("a3", "a"), pool.add("a4", "a")] == ["a1", "a2"]
    assert len(pool) == 3


def test_a_used_connection_is_displaced_last() -> None:
    """Not the oldest one, but the one that has not been used for the longest time."""
    pool = ConnectionPool[str](total=9, per_address=2)
    pool.add("a1", "a")
    pool.add("a2", "a")
    pool.renew("a1")
    pool.renew("unknown")

    assert pool.add("a3", "a") == "a2"


def test_above_the_total_the_address_with_the_most_loses_one() -> None:
    """The only connection of another address remains, however long it has waited."""
    pool = ConnectionPool[str](total=3, per_address=3)
    for connection in ("b1", "a1", "a2"):
        pool.add(connection, connection[0])

    assert pool.add("c1", "c") == "a1"
    assert pool.add("d1", "d") == "b1"  # one each: the one that has waited longest
