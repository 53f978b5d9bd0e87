"""What the services of a running `equipoise up` run with."""

from pathlib import Path

from msgspec.structs import replace

from equipoise.cli.service_settings import AllSettings, all_settings, read_file
from equipoise.cli.up.running_up import RunningUp
from equipoise.runtime.configuration import ConfigurationError


def settings_beside(running: RunningUp, own: AllSettings) -> AllSettings | None:
    """The settings of the services, with the connections of `own` to the cluster and NATS. None: they cannot be read.

    Only the user who started `up` can write this file: unlike what services publish, nobody else can set its URLs,
    files and credentials.
    """
    if not running.services_configuration:
        return None
    try:
        found = all_settings(read_file(Path(running.services_configuration)))
    except (ConfigurationError, OSError, UnicodeError):
        return None
    return replace(found, shared=replace(found.shared, kubernetes=own.shared.kubernetes, nats=own.shared.nats))
