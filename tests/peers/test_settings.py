"""Settings of the peers that a configuration of Equipoise does not accept."""

from peers.cases import Case, peer_cases

from equipoise.cli.service_settings import all_settings
from equipoise.runtime.configuration import ConfigurationError


@peer_cases("settings")
def test_settings(case: Case) -> None:
    """They are accepted or refused with the configuration."""
    try:
        all_settings({case.inputs["section"]: case.inputs["settings"]})
    except ConfigurationError:
        case.check(accepted=False)
    else:
        case.check(accepted=True)
