"""A workload, and its name on the bus."""

import msgspec


class Workload(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A controller of pods: Deployment, StatefulSet, DaemonSet, CronJob, CloneSet, Rollout …

    `group` is the API group without its version ("" for the core group).
    """

    kind: str
    group: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`<kind>_<group>` in lower case, one token of a subject: `statefulset_apps_kruise_io`."""
        return f"{self.kind}_{self.group}".lower().replace(".", "_").rstrip("_")

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"
