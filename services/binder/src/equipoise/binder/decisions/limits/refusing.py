"""How every limit says no."""

import math

from equipoise.binder.decisions.limits.count import halved
from equipoise.binder.state.ledger import View


def refused(view: View, counted: int, most: float, what: str) -> str:
    """ "" while fewer than `most` are counted, else what there is too much of. `most` is halved in start-up grace."""
    allowed = halved(most) if view.halved else most
    if counted < allowed:
        return ""
    reached = "nothing may move" if allowed == 0 else f"{counted} of {math.floor(allowed)} allowed"
    return f"{what}: {reached}{', half of the usual after a start or an outage' if view.halved and allowed else ''}"
