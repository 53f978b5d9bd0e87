"""DefaultNormalizeScore: from any non-negative scores to 0..100."""

import numpy as np

from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Ints


def all_equal(length: int, score: int) -> Ints:
    """This score for each node: as np.full, which takes four times as long for few nodes."""
    found = np.empty(length, dtype=np.int64)
    found.fill(score)
    return found


def normalized(scores: Ints, *, reverse: bool = False) -> Ints:
    """The highest becomes 100, or 0 with `reverse`. All 0: they stay, or become 100 with `reverse`."""
    highest = int(scores.item(scores.argmax())) if len(scores) else 0
    if highest == 0:
        return all_equal(len(scores), MAX_SCORE) if reverse else scores
    share: Ints = MAX_SCORE * scores // highest
    return MAX_SCORE - share if reverse else share
