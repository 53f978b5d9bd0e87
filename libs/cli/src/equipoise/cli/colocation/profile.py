"""Reads colocation profiles, validates them, and makes their manifests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.contracts.colocation.classes import priority_classes
from equipoise.contracts.colocation.profile import Profile, config_map, profile_faults, selection_faults
from equipoise.contracts.colocation.profile_policy import bindings
from equipoise.contracts.colocation.qos_policy import qos_validation
from equipoise.runtime.configuration.errors import ConfigurationError, convert
from equipoise.runtime.configuration.yaml_text import UnreadableYaml, read_yaml
from equipoise.runtime.kubernetes.colocation_manifests import policies


def read_profiles(files: Sequence[Path]) -> list[Profile]:
    """Raises ConfigurationError, with a line per fault: the file, the path in it, and what is allowed."""
    profiles: list[Profile] = []
    faults: list[str] = []
    for file in files:
        try:
            profiles.append(read_profile(file.read_text(encoding="utf-8"), str(file)))
        except ConfigurationError as error:
            faults.append(str(error))
    names = [profile.name for profile in profiles]
    faults += [
        f"name: {name} is the name of several profiles" for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if faults:
        raise ConfigurationError("\n".join(faults))
    return profiles


def read_profile(text: str, where: str) -> Profile:
    """The profile in the text of a file with this name. Raises ConfigurationError."""
    try:
        document = read_yaml(text)
    except UnreadableYaml as error:
        raise ConfigurationError(f"{where}: {error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where}: expected a profile: name, qosClass, band, namespaces")
    try:
        profile: Profile = convert(document, Profile, "")
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {str(error).removeprefix('.')}") from None
    faults = [*profile_faults(profile), *selection_faults(profile)]
    if faults:
        raise ConfigurationError("\n".join(f"{where}: {fault}" for fault in faults))
    return profile


def profile_manifests(
    profiles: Sequence[Profile],
    namespace: str,
    version: str,
    *,
    with_priority_classes: bool = False,
    with_qos_validation: bool = False,
) -> list[dict[str, Any]]:
    """What an operator applies, in an order in which no pod meets a class that does not exist.

    `namespace`: of the ConfigMaps. `version`: of the MutatingAdmissionPolicy.
    """
    return [
        *(priority_classes() if with_priority_classes else []),
        *policies(version),
        *(qos_validation() if with_qos_validation else []),
        *(config_map(profile, namespace) for profile in profiles),
        *(document for profile in profiles for document in bindings(profile, namespace, version)),
    ]
