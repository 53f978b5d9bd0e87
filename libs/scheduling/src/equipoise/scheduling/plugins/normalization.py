"""DefaultNormalizeScore: from any non-negative scores to 0..100."""

import numpy as np

from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.arrays import Ints


def all_equal(length: int, score: int) -> Ints:
    """An array with this score for each node. np.full would take four times as long for few nodes."""
    scores = np.empty(length, dtype=np.int64)
    scores.fill(score)
    return scores


def normalized(scores: Ints, *, reverse: bool = False) -> Ints:
    """The highest score becomes 100, or 0 with `reverse`. If all are 0, they stay 0, or become 100 with `reverse`."""
    highest = int(scores.item(scores.argmax())) if len(scores) else 0
    if highest == 0:
        return all_equal(len(scores), MAX_SCORE) if reverse else scores
    share: Ints = MAX_SCORE * scores // highest
    return MAX_SCORE - share if reverse else share
