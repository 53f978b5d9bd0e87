"""The settings of one run: a KubeSchedulerConfiguration, plugins, and how nodes are scored by their load."""

from collections.abc import Mapping
from typing import Any

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.scheduler.decisions.load_policy import NAME, WEIGHT
from equipoise.scheduling.configuration import SchedulerConfiguration, document_with_plugins, read_configuration
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.settings.document import InvalidConfiguration, read_yaml
from equipoise.scorer.decisions.policies import SINGLE_POLICIES
from equipoise.scorer.settings import ScorerSettings

SCHEDULER_NAME = "equipoise-scheduler"
"""The schedulerName of a single profile that sets none."""

KUBE_SCHEDULER = "default-scheduler"
"""The schedulerName of kube-scheduler."""

LEASE = "equipoise-scheduler"


class LoadScoring(msgspec.Struct, frozen=True, kw_only=True):
    """How the plugin EquipoiseLoad scores nodes: the sections `load` and `scorer` of the configuration of Equipoise."""

    load: LoadSettings
    scorer: ScorerSettings


class SchedulerProgramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run."""

    configuration: SchedulerConfiguration
    plugins: Mapping[str, Factory] = {}
    load: LoadScoring | None = None
    """How nodes are scored by their load; None if they are not."""

    namespace: str = "kube-system"
    """The namespace of the Lease."""

    lease: str = LEASE

    def not_enabled(self) -> list[str]:
        """Names of plugins that no profile enables, sorted."""
        enabled = {
            plugin.name
            for profile in self.configuration.profiles
            for plugin_set in profile.plugins.values()
            for plugin in plugin_set.enabled
        }
        return sorted({*self.plugins, *([NAME] if self.load is not None else [])} - enabled)


def scheduler_configuration(text: str | None, plugins: Mapping[str, Factory], *, load: bool) -> SchedulerConfiguration:
    """Read a KubeSchedulerConfiguration; without a `text`, the configuration has one profile with all plugins.

    With `load`, a profile may enable the plugin that scores nodes by their load. Raises InvalidConfiguration.
    """
    if load and NAME in plugins:
        raise InvalidConfiguration([f"--plugin: {NAME} is the name of the plugin of --policy"])
    weights = {**dict.fromkeys(plugins, 1), **({NAME: WEIGHT} if load else {})}
    document = document_with_plugins(weights) if text is None else read_yaml(text)
    if isinstance(document, dict):
        document = {**document, "profiles": _with_scheduler_name(document.get("profiles"))}
    configuration = read_configuration(document, weights.keys())
    if configuration.profile(KUBE_SCHEDULER) is not None:
        reason = f"{KUBE_SCHEDULER} is the schedulerName of kube-scheduler: choose another one"
        raise InvalidConfiguration([f"profiles: {reason}"])
    return configuration


def _with_scheduler_name(profiles: Any) -> Any:
    """The profiles, or the default one if there are none. A single profile without a schedulerName gets
    SCHEDULER_NAME."""
    match profiles or [{}]:
        case [dict(single)]:
            return [{"schedulerName": SCHEDULER_NAME} | single]
    return profiles


def with_policy(scorer: ScorerSettings, name: str) -> ScorerSettings:
    """The settings with the policy of this name. If another policy is configured, the new one has its defaults.

    Raises InvalidConfiguration.
    """
    configured = scorer.policy
    if name == configured.policy_name():
        return scorer
    policies: Mapping[str, type] = SINGLE_POLICIES
    if name not in policies:
        known = ", ".join(sorted({*policies, configured.policy_name()}))
        raise InvalidConfiguration([f"--policy {name}: there is no such policy; known: {known}"])
    return msgspec.structs.replace(scorer, policy=policies[name]())
