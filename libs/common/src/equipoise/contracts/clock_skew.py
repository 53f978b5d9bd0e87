"""How far the clock of a service is from that of the API server."""


def skew_problem(earliest: float, latest: float, now: float, most: float) -> str:
    """States that the API server's time, between `earliest` and `latest`, is more than `most` seconds from `now`.

    Empty if it is not. The text names both clocks, because either may be wrong.
    """
    skew = max(earliest - now, now - latest)
    if skew <= most:
        return ""
    direction = "ahead of" if earliest > now else "behind"
    return (
        f"the clock of the API server is at least {skew:.0f} s {direction} this one's, at most {most:.0f} s are "
        "allowed (load.freshness.skewUnknown): synchronize the clocks of both machines (chrony or ntpd)"
    )
