"""A server's clock, from responses dated in whole seconds."""

import math
from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from equipoise.runtime.kubernetes.http.server_clock import ServerClock

NOW = 1_800_000_000.0
OFFSETS = st.floats(-1e5, 1e5)
WAITS = st.lists(st.tuples(st.floats(0, 3), st.floats(0.001, 0.5), st.floats(0, 1)), min_size=1, max_size=60)


@given(offset=OFFSETS, drift=st.floats(-0.9e-4, 0.9e-4), waits=WAITS)
def test_the_truth_is_always_inside(offset: float, drift: float, waits: list[tuple[float, float, float]]) -> None:
    """Whatever the delays, and though the clocks drift, the real time lies within the bounds."""
    server, now = ServerClock(), NOW

    def truth(local: float) -> float:
        return local + offset + drift * (local - NOW)

    for pause, delay, share in waits:
        sent = now + pause
        now = sent + delay
        dated = math.floor(truth(sent + share * delay))
        server.observe(formatdate(dated, usegmt=True), sent=sent, received=now)
        for later in (now, now + 60):
            earliest, latest = server.bounds(later)
            assert earliest - 1e-6 <= truth(later) <= latest + 1e-6
            assert server.at(later) == (earliest + latest) / 2


def test_many_responses_make_it_exact() -> None:
    """A resolution of a second becomes milliseconds."""
    server = ServerClock()
    for reply in range(200):
        sent = NOW + reply * 0.137
        server.observe(formatdate(math.floor(sent + 12.345), usegmt=True), sent=sent, received=sent + 0.002)

    earliest, latest = server.bounds(NOW)
    assert latest - earliest < 0.03
    assert earliest <= NOW + 12.345 <= latest


def test_a_clock_that_was_set_is_estimated_again() -> None:
    """A response that contradicts the others replaces them."""
    server = ServerClock()
    for offset in (0.0, 3600.0):
        server.observe(formatdate(NOW + offset, usegmt=True), sent=NOW, received=NOW)

    assert abs(server.at(NOW) - (NOW + 3600)) <= 0.5


def test_no_response_yet() -> None:
    """Until a response with a date arrives, the local time is used."""
    server = ServerClock()
    server.observe("", sent=NOW, received=NOW)
    server.observe("yesterday", sent=NOW, received=NOW)
    server.observe("Mon, 01 Jan 99999999999 00:00:00 GMT", sent=NOW, received=NOW)

    assert server.bounds(NOW) == (NOW, NOW)
    assert NOW == server.at(NOW)


def test_servers_whose_clocks_differ_in_turn() -> None:
    """Behind a load balancer: the bounds are those of the one that responded last, and never empty."""
    server = ServerClock()
    for reply in range(200):
        skew = 2.0 if reply % 2 else -2.0
        sent = NOW + reply * 0.137
        server.observe(formatdate(math.floor(sent + skew), usegmt=True), sent=sent, received=sent + 0.002)
        earliest, latest = server.bounds(sent)
        assert earliest <= sent + skew <= latest + 1e-6
        assert latest - earliest <= 1.1
