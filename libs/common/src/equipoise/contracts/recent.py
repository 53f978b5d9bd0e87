"""Whether a time that another clock has written is recent."""


def is_recent(at: float, now: float, period: float) -> bool:
    """Whether `at` is less than `period` seconds before or after `now`.

    A time further in the future was written by a clock that was wrong. Its age is unknown, and waiting for that time
    could take years.
    """
    return abs(now - at) < period
