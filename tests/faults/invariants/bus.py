"""The bus: acknowledged messages, and alarms for broken streams."""

from faults.history import Guarantees, History


def acknowledged_events_remain(history: History, guarantees: Guarantees) -> list[str]:
    """I13: a stream has every message that it acknowledged, unless a fault removed more than it can survive."""
    lost = [
        event for event in history.events if event.at >= history.since and not event.stored and not event.loss_expected
    ]
    if not lost:
        return []
    return [f"{len(lost)} acknowledged events are lost, the first is {lost[0].event_id}"]


def broken_streams_are_named(history: History, guarantees: Guarantees) -> list[str]:
    """/readyz names every broken stream in time, and no longer does after the repair."""
    wrong = []
    for alarm in history.alarms:
        if alarm.at < history.since:
            continue
        if alarm.named is None or alarm.named > guarantees.alarm:
            wrong.append(f"{alarm.what}: not named within {guarantees.alarm:g} s")
        if alarm.cleared is None or alarm.cleared > guarantees.alarm:
            wrong.append(f"{alarm.what}: still named {guarantees.alarm:g} s after the repair")
    return wrong
