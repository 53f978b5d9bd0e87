"""Which metrics hold the usage: PROFILES by the name that `collector.prometheus.profile` gives.

Another one is a file and a line here.
"""

from collections.abc import Callable, Mapping

from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.profiles.custom import custom
from equipoise.collector.sources.profiles.kube_prometheus import KUBE_PROMETHEUS
from equipoise.collector.sources.profiles.kubelet import KUBELET
from equipoise.collector.sources.profiles.profile import Profile
from equipoise.collector.sources.profiles.recording_rules import RECORDING_RULES

PROFILES: Mapping[str, Callable[[PrometheusSettings], Profile]] = {
    "kubelet": lambda _: KUBELET,
    "kube-prometheus": lambda _: KUBE_PROMETHEUS,
    "recording-rules": lambda _: RECORDING_RULES,
    "custom": custom,
}
