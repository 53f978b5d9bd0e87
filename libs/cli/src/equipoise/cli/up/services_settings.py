"""The settings of the services that a running `equipoise up` has started."""

from pathlib import Path

from msgspec.structs import replace

from equipoise.cli.service_settings import AllSettings, all_settings, read_file
from equipoise.cli.up.running_up import RunningUp
from equipoise.runtime.configuration import ConfigurationError


def settings_beside(running: RunningUp, own: AllSettings) -> AllSettings | None:
    """The settings of the services, with the connections of `own` to the cluster and NATS; None if they are unreadable.

    They are read from a file that only the user who started `up` can write. So its URLs, files and credentials can be
    trusted, unlike those that services publish.
    """
    if not running.services_configuration:
        return None
    try:
        settings = all_settings(read_file(Path(running.services_configuration)))
    except (ConfigurationError, OSError, UnicodeError):
        return None
    return replace(settings, shared=replace(settings.shared, kubernetes=own.shared.kubernetes, nats=own.shared.nats))
