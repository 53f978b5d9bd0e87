"""Utilization and scores."""

from collections import defaultdict
from itertools import pairwise

from faults.history import HARNESS, Guarantees, History


def nothing_without_coverage(history: History, guarantees: Guarantees) -> list[str]:
    """I8: while too few nodes are measured nothing is proposed or evicted, and every score is neutral."""
    wrong = []
    for span in (*history.uncovered, *history.uncovered_for_evictions):
        wrong += [
            f"{published.intent.pod}: proposed {published.at - span.begin:.1f} s after coverage was lost"
            for published in history.new_intents
            if span.contains(published.at) and published.intent.strategy != HARNESS
        ]
        wrong += [
            f"{post.pod}: evicted {post.at - span.begin:.1f} s after coverage was lost"
            for post in history.new_posts
            if span.contains(post.at) and post.executed
        ]
    for span in history.uncovered:
        wrong += [
            f"a score that was not neutral, {score.at - span.begin:.1f} s after coverage was lost"
            for score in history.scores
            if max(history.since, span.begin + guarantees.score_lag) <= score.at <= span.end and not score.neutral
        ]
    return wrong


def usage_is_monotonic(history: History, guarantees: Guarantees) -> list[str]:
    """I16: no message about a node is followed by an older one."""
    wrong = []
    of_node: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for measured in history.measured:
        of_node[measured.node].append((measured.epoch, measured.sequence, measured.sampled_at))
    for node, orders in of_node.items():
        wrong += [f"{node}: {after} after {before}" for before, after in pairwise(orders) if after[:2] <= before[:2]]
        wrong += [
            f"{node}: a sample {before[2] - after[2]:.1f} s older than the previous one"
            for before, after in pairwise(orders)
            if after[2] < before[2]
        ]
    return wrong
