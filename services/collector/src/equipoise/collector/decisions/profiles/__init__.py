"""Which metrics hold the usage: PROFILES by the name in `collector.prometheus.profile`.

Another profile is one file and one line here.
"""

from collections.abc import Callable, Mapping

from equipoise.collector.decisions.profiles.custom import CustomQueries, custom_profile
from equipoise.collector.decisions.profiles.kube_prometheus import KUBE_PROMETHEUS
from equipoise.collector.decisions.profiles.kubelet import KUBELET
from equipoise.collector.decisions.profiles.query_profile import QueryProfile
from equipoise.collector.decisions.profiles.recording_rules import RECORDING_RULES

PROFILES: Mapping[str, Callable[[CustomQueries], QueryProfile]] = {
    "kubelet": lambda _: KUBELET,
    "kube-prometheus": lambda _: KUBE_PROMETHEUS,
    "recording-rules": lambda _: RECORDING_RULES,
    "custom": custom_profile,
}
