"""Reads profiles and prints their manifests."""

from equipoise.contracts.colocation.profile import Profile, manifests
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.configuration.errors import convert
from equipoise.runtime.configuration.manifest_text import manifest_text
from equipoise.runtime.configuration.yaml_text import UnreadableYaml, read_yaml


def profile_manifests(text: str, *, namespace: str, version: str) -> str:
    """YAML of all profiles in the file. Raises ConfigurationError with the path of the fault."""
    try:
        document = read_yaml(text)
    except UnreadableYaml as error:
        raise ConfigurationError(str(error)) from None
    listed = document.get("profiles") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not listed or len(document) > 1:
        raise ConfigurationError("the file must have one field, profiles: a list with at least one profile")
    profiles = [convert(each, Profile, f"profiles[{place}]") for place, each in enumerate(listed)]
    if len({profile.name for profile in profiles}) < len(profiles):
        raise ConfigurationError("profiles must have different names")
    documents = [document for profile in profiles for document in manifests(profile, version, namespace)]
    return "---\n".join(manifest_text(document) for document in documents)
