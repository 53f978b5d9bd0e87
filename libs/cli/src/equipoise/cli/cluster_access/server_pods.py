"""Pods of servers and services, with the fields that a client needs."""

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, ExplainedCondition, Object, is_ready
from equipoise.runtime.kubernetes.client import Resource


class SecretKey(ApiValue, frozen=True, kw_only=True):
    """A key of a Secret."""

    name: str = ""
    key: str = ""


class ValueSource(ApiValue, frozen=True, kw_only=True):
    secret_key_ref: SecretKey | None = None


class Variable(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""
    value_from: ValueSource | None = None


class NamedPort(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    container_port: int = 0


class ServerContainer(ApiValue, frozen=True, kw_only=True):
    env: tuple[Variable, ...] = ()
    ports: tuple[NamedPort, ...] = ()


class SecretVolume(ApiValue, frozen=True, kw_only=True):
    secret_name: str = ""


class ConfigMapVolume(ApiValue, frozen=True, kw_only=True):
    name: str = ""


class ServerVolume(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None


class ServerSpec(ApiValue, frozen=True, kw_only=True):
    subdomain: str = ""
    service_account_name: str = ""
    containers: tuple[ServerContainer, ...] = ()
    volumes: tuple[ServerVolume, ...] = ()


class ServerStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[ExplainedCondition, ...] = ()


class ServerPod(Object, frozen=True, kw_only=True):
    """A pod of NATS, of Prometheus or of a service."""

    spec: ServerSpec = ServerSpec()
    status: ServerStatus = ServerStatus()

    @property
    def ready(self) -> bool:
        return self.metadata.deletion_timestamp is None and is_ready(self.status.conditions)

    @property
    def owner(self) -> str:
        """The UID of the controller, which is the same for all replicas; the UID of the pod if it has no controller."""
        controller = self.metadata.controller
        return self.metadata.uid if controller is None else controller.uid

    @property
    def account(self) -> str:
        """The name of its ServiceAccount."""
        return self.spec.service_account_name or "default"

    @property
    def variables(self) -> list[Variable]:
        """The environment variables of all containers."""
        return [variable for container in self.spec.containers for variable in container.env]


SERVER_PODS: Resource[ServerPod] = Resource(group="", version="v1", plural="pods", kind="Pod", model=ServerPod)
