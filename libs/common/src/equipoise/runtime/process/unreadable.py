"""The objects, messages, series and files that a process cannot read at present. They are reported as problems."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from equipoise.contracts.plain_text import plain_text

NAME_LIMIT = 160
REASON_LIMIT = 240
"""The maximum number of characters. Names and reasons may contain text that a tenant wrote."""

ENTRY_LIMIT = 1_000
"""The maximum number of entries of a source. Further entries are not stored."""

SOURCE_LIMIT = 64

SHOWN = 3
"""The number of entries of a source that a problem names."""

log = structlog.get_logger()


class UnreadableThings:
    """The reasons why things cannot be read, by source (`pods`, `utilization`, `Prometheus`) and name.

    An entry is added whenever a thing cannot be read, and removed when it is readable or gone. Both are logged once.
    All methods are cheap.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, str]] = {}

    def add(self, source: str, name: str, reason: str) -> None:
        """Adds an entry. `name` identifies the thing in its source; `reason` is a text for users."""
        source, name, reason = (
            plain_text(source, NAME_LIMIT),
            plain_text(name, NAME_LIMIT),
            plain_text(reason, REASON_LIMIT),
        )
        if source not in self._reasons and len(self._reasons) >= SOURCE_LIMIT:
            return
        entries = self._reasons.setdefault(source, {})
        before = entries.get(name)
        if before is None and len(entries) >= ENTRY_LIMIT:
            return
        entries[name] = reason
        if before is None:
            log.warning("cannot be read", source=source, name=name, reason=reason)

    def remove(self, source: str, name: str) -> None:
        """Removes an entry: its object is readable again, or gone. Does nothing if there is no such entry."""
        if not self._reasons:  # called for every object of a cluster
            return
        source, name = plain_text(source, NAME_LIMIT), plain_text(name, NAME_LIMIT)
        entries = self._reasons.get(source)
        if entries is not None and entries.pop(name, None) is not None:
            log.info("can be read again, or is gone", source=source, name=name)
            if not entries:
                del self._reasons[source]

    def replace(self, source: str, reasons: Mapping[str, str]) -> None:
        """Replaces all entries of this source. `reasons`: the reason of each entry, by name."""
        kept = {plain_text(name, NAME_LIMIT) for name in reasons}
        for name in list(self._reasons.get(plain_text(source, NAME_LIMIT), ())):
            if name not in kept:
                self.remove(source, name)
        for name, reason in reasons.items():
            self.add(source, name, reason)

    @contextmanager
    def guard(self, source: str, name: str) -> Iterator[None]:
        """Logs and lists an error in the block instead of raising it, so that the caller continues without this
        thing."""
        try:
            yield
        except Exception as error:
            if name not in self._reasons.get(source, ()):
                log.warning("unexpected error", source=source, name=plain_text(name, NAME_LIMIT), exc_info=True)
            self.add(source, name, f"{type(error).__name__}: {error}")
        else:
            self.remove(source, name)

    def counts(self) -> dict[str, int]:
        """The number of entries by source. May be called in another thread."""
        return {source: len(entries) for source, entries in list(self._reasons.items())}

    @property
    def problems(self) -> list[str]:
        """A problem for each source, with some names and the number of entries."""
        return [f"{source}: {_described(entries)}" for source, entries in sorted(self._reasons.items())]

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """Source, name and reason of every entry."""
        for source, entries in self._reasons.items():
            for name, reason in entries.items():
                yield source, name, reason


def _described(entries: Mapping[str, str]) -> str:
    shown = [f"{name} ({reason})" for name, reason in list(entries.items())[:SHOWN]]
    number = f"{len(entries)} or more" if len(entries) >= ENTRY_LIMIT else str(len(entries))
    more = f", and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"{number} cannot be read: {', '.join(shown)}{more}"
