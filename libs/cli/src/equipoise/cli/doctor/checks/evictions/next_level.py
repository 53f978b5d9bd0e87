"""Whether a higher level of trust is advised. It is never set by anything but the configuration."""

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.effective.next_level import read_next_level
from equipoise.runtime.bus import BusError

SUBJECT = "next level"
FIX = "nothing has to be done; to raise the level, see docs/operate.md, Levels of trust"


async def next_level(environment: Environment) -> list[Finding]:
    if environment.nats_problem:
        return [Finding("unknown", SUBJECT, environment.nats_problem)]
    try:
        text = await read_next_level(environment.settings.shared.nats, environment.clock)
    except BusError as error:
        return [Finding("unknown", SUBJECT, f"not known: {error}")]
    return [Finding("ok", SUBJECT, text, FIX if "is advised." in text else "")] if text else []
