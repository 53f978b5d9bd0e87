"""Loads plugins from Python modules and files."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.settings.document import InvalidConfiguration


def load_plugins(locations: Sequence[str]) -> Mapping[str, Factory]:
    """The factories of plugins, by name. `locations`: `module:Class` or `file.py:Class`.

    This function and the factories raise InvalidConfiguration.
    """
    factories: dict[str, Factory] = {}
    for location in locations:
        source, colon, attribute = location.rpartition(":")
        if not colon or not source or not attribute:
            raise _unusable(location, "expected MODULE:CLASS or FILE.py:CLASS")
        plugin = getattr(_module(source, location), attribute, None)
        if not isinstance(plugin, type):
            raise _unusable(location, f"{source} has no class {attribute}")
        name = getattr(plugin, "name", None)
        if not isinstance(name, str) or not name:
            raise _unusable(location, "the class needs an attribute `name`, by which profiles enable it")
        if name in factories:
            raise _unusable(location, f"there is another plugin with the name {name}")
        factories[name] = _factory(plugin, location)
    return factories


def _unusable(location: str, why: str) -> InvalidConfiguration:
    return InvalidConfiguration([f"plugin {location}: {why}"])


def _module(source: str, location: str) -> ModuleType:
    try:
        return _module_of_file(Path(source).resolve()) if source.endswith(".py") else import_module(source)
    except Exception as error:
        raise _unusable(location, f"{type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _factory(plugin: type, location: str) -> Factory:
    """A factory that calls the class with as many of (arguments, handle) as its constructor has parameters."""
    try:
        count = len(inspect.signature(plugin).parameters)
    except ValueError:  # without a constructor of its own
        count = 0
    if count > 2:
        raise _unusable(location, f"the class is called with (arguments, handle), not with {count} values")

    def make(arguments: Any, handle: Handle) -> Plugin:
        try:
            made: Plugin = plugin(*(arguments, handle)[:count])
        except Exception as error:
            raise _unusable(location, f"{type(error).__name__}: {error}") from error
        return made

    return make
