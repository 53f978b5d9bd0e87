"""Calls of plugins: how they are measured, and what an error of a plugin becomes."""

from collections.abc import Callable
from typing import Any, NoReturn, Self, TypeVar

from equipoise.scheduling.framework.plugin import Plugin

T = TypeVar("T")

Measure = Callable[[str, str, Callable[[], Any]], Any]
"""A function of plugin name, extension point and call. It returns the result of the call, and may record its
duration."""


class PluginFailed(Exception):
    """A plugin raised an error, or its result cannot be used."""

    def __init__(self, plugin: str, point: str, why: str) -> None:
        super().__init__(f"plugin {plugin} failed in {point}: {why}")
        self.plugin = plugin

    @classmethod
    def by(cls, plugin: Plugin, point: str, error: Exception) -> Self:
        return cls(plugin.name, point, f"{type(error).__name__}: {error}")


def fail(plugin: Plugin, point: str, error: Exception) -> NoReturn:
    """Raises PluginFailed for any error of a plugin, so that a plugin of a user cannot end the scheduler."""
    if isinstance(error, PluginFailed):
        raise error
    raise PluginFailed.by(plugin, point, error) from error


def measured(measure: Measure | None, plugin: Any, point: str, function: Callable[..., T]) -> Callable[..., T]:
    """The function itself without `measure`, else a function that also measures each call."""
    if measure is None:
        return function

    def call(*arguments: Any) -> T:
        result: T = measure(plugin.name, point, lambda: function(*arguments))
        return result

    return call
