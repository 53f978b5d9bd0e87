"""Changes of the cluster that forbid evictions."""

from faults.history import Guarantees, History


def changes_are_respected(history: History, guarantees: Guarantees) -> list[str]:
    """I20: once a change is older than a read may be, nothing is evicted that it forbids."""
    since = guarantees.read_age + guarantees.transit
    return [
        f"{post.namespace}/{post.pod}: evicted {post.at - change.begin:.1f} s after {change.why}"
        for change in history.forbidden
        for post in history.new_evictions
        if change.begin + since <= post.at <= change.end and change.concerns(post)
    ]
