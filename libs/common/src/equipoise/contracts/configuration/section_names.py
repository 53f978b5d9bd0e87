"""The names of the sections of the configuration that belong to a single program."""

from typing import Literal

from equipoise.contracts.bus.subjects import ALL_SERVICES, ServiceName

SectionName = ServiceName | Literal["agent"]

SECTIONS: tuple[SectionName, ...] = (*ALL_SERVICES, "agent")
"""The sections of the services on the bus, and of the agent on the nodes."""
