"""Whether something began lately, by a time that another clock has written."""


def is_recent(at: float, now: float, period: float) -> bool:
    """Whether `at` is less than `period` seconds ago, or ahead.

    What is further in the future was written by a clock that was wrong: nothing is known of its age, and to wait until
    then could take years.
    """
    return abs(now - at) < period
