"""Settings of a configuration that `equipoise up` does not use. Pure."""

from collections.abc import Collection, Iterator

from equipoise.cli.effective.comparison import DifferingSetting, differences, value_text
from equipoise.cli.effective.running import Settings
from equipoise.cli.effective.text import setting_at


def unused_settings(given: Settings, used: Settings, defaults: Settings, services: Collection[str]) -> Iterator[str]:
    """One line for each unused setting of `given`. `used` are the settings with which `services` are started."""
    reasons = {
        "annotator": "nothing is annotated and no hint is written without --annotate",
        "reclaimer": "`up` runs no reclaimer: see docs/colocation.md",
        "agent": "`up` runs no agent: it belongs on the nodes",
    }
    for section, why in reasons.items():
        if section not in services:
            changed = differences({section: given.get(section, {})}, {section: defaults.get(section, {})})
            yield from (f"{_shown(each)}: {why}" for each in changed)
    if "annotator" not in services and setting_at(given, "placement", "hints"):
        yield "placement.hints: true: hints are computed and not written without --annotate"
    if given.get("nats") != defaults.get("nats"):
        yield "nats: `up` runs a NATS server of its own"
    for setting in ("kubeconfig", "context"):
        value = setting_at(given, "kubernetes", setting)
        if value and value != setting_at(used, "kubernetes", setting):
            yield f"kubernetes.{setting}: {value_text(value)}: use --{setting}"
    tls = setting_at(defaults, "scorer", "extender", "tls")
    for each in differences(given, used):
        if each.setting == "binder.evict" and each.one:
            yield "binder.evict: true: every eviction is a dry run without --evict"
        elif each.setting.startswith("scorer.extender.tls") and each.one != tls:
            yield f"{_shown(each)}: on this machine the extender is served without TLS"


def _shown(each: DifferingSetting) -> str:
    return f"{each.setting}: {value_text(each.one)}"
