"""The settings of a replay from a configuration document."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml

from equipoise.binder.settings import BinderSettings
from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.replay import Settings
from equipoise.runtime.configuration import read_sections
from equipoise.scorer.settings import ScorerSettings


def replay_settings(document: Mapping[str, Any]) -> Settings:
    """Raises ConfigurationError."""
    shared, own = read_sections(document, SERVICE_SETTINGS)
    scorer, descheduler, binder = own["scorer"], own["descheduler"], own["binder"]
    assert isinstance(scorer, ScorerSettings)
    assert isinstance(descheduler, DeschedulerSettings)
    assert isinstance(binder, BinderSettings)
    return Settings(
        load=shared.load,
        thresholds=shared.thresholds,
        protection=shared.protection,
        scorer=scorer,
        descheduler=descheduler,
        limits=binder.limits,
    )


def with_parameters(document: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """The document with each value at its path. Raises InvalidInput for a path through something that is no section."""
    copy = deepcopy(dict(document))
    for path, value in parameters.items():
        *parents, name = path.split(".")
        section: Any = copy
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise InvalidInput(f"--set {path}: {parent} is not a section of the configuration")
        try:
            section[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InvalidInput(f"--set {path}: {value!r} is not a YAML value") from error
    return copy
