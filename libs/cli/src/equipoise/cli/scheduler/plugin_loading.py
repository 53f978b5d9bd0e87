"""Plugins from Python modules and files, and the configuration that enables them."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from equipoise.cli.exit_codes import InvalidInput
from equipoise.scheduling.configuration import KIND, SchedulerConfiguration, read_configuration
from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.settings.document import InvalidConfiguration, read_yaml
from equipoise.scheduling.settings.plugin_arguments import API_VERSION

SCHEDULER_NAME = "equipoise-scheduler"
"""The schedulerName of a profile without one."""

OTHERS = "default-scheduler"
"""That of kube-scheduler."""


_NO_WEIGHTS: Mapping[str, int] = {}


def load_plugins(places: Sequence[str]) -> Mapping[str, Factory]:
    """By name. `places`: `module:Class` or `file.py:Class`. Raises InvalidInput."""
    found: dict[str, Factory] = {}
    for place in places:
        source, colon, attribute = place.rpartition(":")
        if not colon or not source or not attribute:
            raise InvalidInput(f"--plugin {place}: expected MODULE:CLASS or FILE.py:CLASS")
        plugin = getattr(_module(source, place), attribute, None)
        if not isinstance(plugin, type):
            raise InvalidInput(f"--plugin {place}: {source} has no class {attribute}")
        name = getattr(plugin, "name", None)
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"--plugin {place}: the class needs an attribute `name`, by which profiles enable it")
        if name in found:
            raise InvalidInput(f"--plugin {place}: there is another plugin with the name {name}")
        found[name] = _factory(plugin, place)
    return found


def load_configuration(
    text: str | None, plugins: Mapping[str, Factory], weights: Mapping[str, int] = _NO_WEIGHTS
) -> SchedulerConfiguration:
    """Of a KubeSchedulerConfiguration. Without one, a single profile with all plugins, some with other weights than 1.

    Raises InvalidInput.
    """
    try:
        document = _default_document(plugins, weights) if text is None else dict(read_yaml(text))
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


def _default_document(plugins: Mapping[str, Factory], weights: Mapping[str, int]) -> dict[str, Any]:
    enabled = [{"name": name, "weight": weights.get(name, 1)} for name in plugins]
    profile = {"schedulerName": SCHEDULER_NAME, "plugins": {"multiPoint": {"enabled": enabled}}}
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}


def _module(source: str, place: str) -> ModuleType:
    try:
        return _module_of_file(Path(source).resolve()) if source.endswith(".py") else import_module(source)
    except Exception as error:
        raise InvalidInput(f"--plugin {place}: {type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _factory(plugin: type, place: str) -> Factory:
    """Called with as many of (arguments, handle) as its constructor takes."""
    try:
        count = len(inspect.signature(plugin).parameters)
    except ValueError:  # without a constructor of its own
        count = 0
    if count > 2:
        raise InvalidInput(f"--plugin {place}: the class is called with (arguments, handle), not with {count} values")

    def make(arguments: Any, handle: Handle) -> Plugin:
        try:
            made: Plugin = plugin(*(arguments, handle)[:count])
        except Exception as error:
            raise InvalidInput(f"--plugin {place}: {type(error).__name__}: {error}") from error
        return made

    return make
