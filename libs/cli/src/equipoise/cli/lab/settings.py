"""The settings of a replay from a configuration document."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.service_settings import all_settings
from equipoise.lab.replay import Settings


def replay_settings(document: Mapping[str, Any]) -> Settings:
    """Raises ConfigurationError."""
    settings = all_settings(document)
    return Settings(
        load=settings.shared.load,
        thresholds=settings.shared.thresholds,
        protection=settings.shared.protection,
        scorer=settings.scorer,
        descheduler=settings.descheduler,
        limits=settings.binder.limits,
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
