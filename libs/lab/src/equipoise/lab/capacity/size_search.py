"""The search for the smallest cluster that is good enough. Sizes are numbers of removed nodes."""

from collections.abc import Set


class SizeSearch:
    """Finds the most nodes that can be removed, from a first guess on.

    It moves away from the guess in steps of 1, 2, 4, … until one size is good enough and one is not, and then halves
    the sizes between them. With several replays at a time, it divides them into more parts.
    """

    def __init__(self, most: int) -> None:
        """`most`: no more nodes can be removed."""
        self.most = most
        self._step = 1
        self._good_enough: dict[int, bool] = {}
        """The results by size."""

    @property
    def too_few(self) -> int:
        """The fewest removed nodes with which the cluster is not good enough; `most` + 1: not known."""
        return min((removed for removed, good in self._good_enough.items() if not good), default=self.most + 1)

    @property
    def enough(self) -> int:
        """The most removed nodes below `too_few` with which the cluster is good enough; −1: not known."""
        below = self.too_few
        return max((removed for removed, good in self._good_enough.items() if good and removed < below), default=-1)

    def next_sizes(self, guess: int, width: int) -> Set[int]:
        """The sizes to replay next, at most `width`; none if the answer is known. `guess` counts for the first time."""
        low, high = self.enough, self.too_few
        if high - low <= 1:
            return set()
        started = bool(self._good_enough)
        if not started:
            wanted = [min(guess, self.most) + each for each in range(width)]
        elif high > self.most:
            wanted = [low + self._step * 2**each for each in range(width)]
        elif low < 0:
            wanted = [high - self._step * 2**each for each in range(width)]
        else:
            wanted = [low + (high - low) * (each + 1) // (width + 1) for each in range(width)]
        if started:
            self._step *= 2**width
        return {min(max(size, low + 1), high - 1) for size in wanted}

    def learn(self, removed: int, *, good_enough: bool) -> None:
        """The result of a replay."""
        self._good_enough[removed] = good_enough
