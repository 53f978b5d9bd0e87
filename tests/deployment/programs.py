"""What a container runs, read from k8s/base or docker-compose.yml, and the differences between both."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

SERVICE_ACCOUNT = "service account"
"""Source of the credentials that Kubernetes gives to a pod."""

KUBECONFIG = "kubeconfig"
"""Source of the user's own kubeconfig."""

VOLUME = "volume"
"""Source of a folder that outlives the container."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP health check of a container."""

    port: int
    path: str


def health_of(url: str) -> Health:
    address = urlsplit(url)
    path = address.path + (f"?{address.query}" if address.query else "")
    return Health(port=address.port or 80, path=path)


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A container."""

    name: str
    image: str
    command: tuple[str, ...]
    environment: dict[str, str]
    """A value may contain `secret:<key>`."""

    mounts: dict[str, str]
    """Path in the container to its source: a file of the repository, `secret:<key>` (of the passwords),
    `secret:<Secret>/<key>`, or one of the constants above."""

    user: str | None
    read_only: bool
    grace_seconds: int
    health: Health | None = None
    health_command: tuple[str, ...] = ()
    after: dict[str, str] = {}
    """Names of the programs that start before, and the conditions to wait for."""

    @property
    def reaches_cluster(self) -> bool:
        return bool({SERVICE_ACCOUNT, KUBECONFIG} & set(self.mounts.values()))


_CLUSTER_VARIABLE = "EQUIPOISE_KUBERNETES__KUBECONFIG"


def differences(base: Mapping[str, Program], compose: Mapping[str, Program]) -> list[str]:
    """All differences except the expected ones: Prometheus and credentials.

    In a cluster, Prometheus belongs to the user and programs have ServiceAccounts; compose runs its own Prometheus and
    mounts the user's kubeconfig.
    """
    result = [f"only one of the two has {name}" for name in sorted(set(base) ^ (set(compose) - {"prometheus"}))]
    for name in sorted(set(base) & set(compose)):
        result += [f"{name}: {text}" for text in _program_differences(base[name], compose[name])]
    return result


def _program_differences(base: Program, compose: Program) -> Iterator[str]:
    for field in ("image", "command", "health", "read_only", "grace_seconds", "reaches_cluster"):
        left, right = getattr(base, field), getattr(compose, field)
        if left != right:
            yield f"{field} is {left} in k8s/base and {right} in docker-compose.yml"
    # The official image of NATS starts as root, and its volume in compose belongs to root.
    if base.user != compose.user and base.name != "nats":
        yield f"user is {base.user} and {compose.user}"
    variables = {name: value for name, value in compose.environment.items() if name != _CLUSTER_VARIABLE}
    yield from _entry_differences("variable", base.environment, variables)
    yield from _entry_differences("path", _own_mounts(base), _own_mounts(compose))
    if compose.reaches_cluster:
        path = compose.environment.get(_CLUSTER_VARIABLE)
        if path is None or compose.mounts.get(path) != KUBECONFIG:
            yield f"{_CLUSTER_VARIABLE} does not name the mounted kubeconfig"


def _own_mounts(program: Program) -> dict[str, str]:
    return {path: source for path, source in program.mounts.items() if source not in (SERVICE_ACCOUNT, KUBECONFIG)}


def _entry_differences(what: str, base: Mapping[str, str], compose: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*base, *compose}):
        left, right = base.get(key), compose.get(key)
        if left != right:
            yield f"{what} {key} is {left} in k8s/base and {right} in docker-compose.yml"
