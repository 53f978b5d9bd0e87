"""DefaultNormalizeScore: from any non-negative scores to 0..100."""

import numpy as np

from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Ints


def normalized(scores: Ints, *, reverse: bool = False) -> Ints:
    """The highest becomes 100, or 0 with `reverse`. All 0: they stay, or become 100 with `reverse`."""
    highest = int(scores.max()) if len(scores) else 0
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    share: Ints = MAX_SCORE * scores // highest
    return MAX_SCORE - share if reverse else share
