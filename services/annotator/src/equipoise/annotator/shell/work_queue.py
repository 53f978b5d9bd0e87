"""Objects that wait to be read, or to be written."""

import asyncio
from dataclasses import dataclass, field

from equipoise.annotator.decisions.write_decision import DueWrite


@dataclass(kw_only=True)
class ObjectQueue:
    """Gives urgent objects first. Otherwise the objects are in the order in which they were put."""

    urgent: dict[str, None] = field(default_factory=dict)
    due: dict[str, None] = field(default_factory=dict)
    filled: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, key: str, write: DueWrite | None) -> None:
        """Add the object, or remove it if no write is due (None)."""
        if write is None:
            self.urgent.pop(key, None)
            self.due.pop(key, None)
        elif write.urgent:
            self.due.pop(key, None)
            self.urgent.setdefault(key)
            self.filled.set()
        elif key not in self.urgent:
            self.due.setdefault(key)
            self.filled.set()

    async def take(self) -> str:
        """The next object, once there is one."""
        while True:
            for waiting in (self.urgent, self.due):
                for key in waiting:
                    del waiting[key]
                    return key
            self.filled.clear()
            await self.filled.wait()

    def __len__(self) -> int:
        return len(self.urgent) + len(self.due)
