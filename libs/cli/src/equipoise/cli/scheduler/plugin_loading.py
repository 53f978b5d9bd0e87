"""The plugins of the command line, and the configuration that enables them."""

from collections.abc import Mapping, Sequence

from equipoise.cli.exit_codes import InvalidInput
from equipoise.scheduling import plugin_loading
from equipoise.scheduling.configuration import SchedulerConfiguration, document_with_plugins, read_configuration
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.settings.document import InvalidConfiguration, read_yaml

SCHEDULER_NAME = "equipoise-scheduler"
"""The schedulerName of a profile without one."""

OTHERS = "default-scheduler"
"""That of kube-scheduler."""


_NO_WEIGHTS: Mapping[str, int] = {}


def load_plugins(places: Sequence[str]) -> Mapping[str, Factory]:
    """The plugins of the option --plugin, by name. Raises InvalidInput."""
    try:
        return plugin_loading.load_plugins(places)
    except InvalidConfiguration as error:
        raise InvalidInput(f"--plugin: {error}") from error


def load_configuration(
    text: str | None, plugins: Mapping[str, Factory], weights: Mapping[str, int] = _NO_WEIGHTS
) -> SchedulerConfiguration:
    """Reads a KubeSchedulerConfiguration. The default is a profile with all plugins, some with other weights than 1.

    Raises InvalidInput.
    """
    try:
        enabled = {name: weights.get(name, 1) for name in plugins}
        document = document_with_plugins(enabled) if text is None else dict(read_yaml(text))
        profiles = document.get("profiles")
        if not profiles:
            document["profiles"] = [{"schedulerName": SCHEDULER_NAME}]
        elif isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict):
            document["profiles"] = [{"schedulerName": SCHEDULER_NAME} | profiles[0]]
        configuration = read_configuration(document, frozenset(plugins))
    except InvalidConfiguration as error:
        raise InvalidInput(str(error)) from None
    if configuration.profile(OTHERS) is not None:
        raise InvalidInput(f"profiles: {OTHERS} is the schedulerName of kube-scheduler: choose another one")
    return configuration
