"""Every reader of what comes from outside, with an example of what it reads.

Tables of the product provide most of them: the resources of the API server, the channels of the bus, the formats of the
lab. `DECODING_MODULES` has every module that decodes anything, so a new one fails the tests until its reader is here.
"""

import pkgutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from annotator.reviews import a_review
from lab.trace_folders import (
    ABOUT,
    ALIBABA,
    ALIBABA_PUBLISHED,
    BITBRAINS,
    BITBRAINS_PUBLISHED,
    OPENB,
    OPENB_PUBLISHED,
    OWN,
    write_folder,
)

import equipoise
from equipoise.agent.shell.cgroups.node_usage import count_cpus, read_cpu_times, read_memory
from equipoise.agent.shell.configuration import AgentConfiguration
from equipoise.annotator.shell.hints_webhook import server as webhook_server
from equipoise.binder.state.ledger_json import NewerFormat, kept_moves
from equipoise.binder.state.ledger_json import decode as decode_ledger
from equipoise.cli.cluster_access.kubeconfig import chosen_context
from equipoise.cli.consolidate.prices import read_prices
from equipoise.cli.doctor.checks.extender import entry_finding
from equipoise.cli.doctor.checks.hints import descheduler_findings
from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.foreign_configuration.documents import find_document
from equipoise.cli.install.given_values import given_values
from equipoise.cli.install.named_objects import required_objects
from equipoise.cli.service_settings import all_settings
from equipoise.collector.decisions.node_colocation import RESERVATION, THIRD_PARTY, node_colocation
from equipoise.collector.decisions.query import SourceError, Subject
from equipoise.collector.sources.load_watcher import WatcherResponse
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.collector.sources.prometheus.samples import (
    LabelCache,
    result_of,
    spacings,
    time_of,
    vector,
)
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.bus.decoding import TolerantDecoder, plausible
from equipoise.contracts.kubernetes.annotations import (
    LOAD,
    RECLAIMED,
    USAGE,
    read_node_load,
    read_node_reclaimed,
    read_workload_usage,
)
from equipoise.contracts.kubernetes.nodes.raw_allocatable import RAW_ALLOCATABLE, base_of
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.lab.formats import load_trace
from equipoise.lab.record.prometheus import _series
from equipoise.runtime.configuration import ConfigurationError, read_document
from equipoise.runtime.kubernetes.client import KubeError, Resource
from equipoise.runtime.kubernetes.http.responses import read_change
from equipoise.scheduler.shell import http_extender
from equipoise.scheduling.configuration import read_configuration
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scorer.decisions.extender_protocol import InvalidRequest, parse_request


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which something from outside is read."""

    name: str
    read: Callable[[bytes], Any]
    example: Any
    """JSON (or what YAML is made of) that can be read."""

    errors: tuple[type[Exception], ...] = ()
    """What it raises for what cannot be read, besides nothing."""

    encode: Callable[[str], bytes] = str.encode
    """The JSON text as it is read."""


DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def modules() -> Iterator[str]:
    """Modules of the product, without those that tests and clusters on a laptop use."""
    for each in pkgutil.walk_packages(equipoise.__path__, "equipoise."):
        if not each.name.startswith("equipoise.testbed") and not each.name.endswith("__main__"):
            yield each.name


def resources() -> dict[str, Resource[Any]]:
    """Every resource of the API server that any service or program reads."""
    found: dict[str, Resource[Any]] = {}
    for name in modules():
        for value in vars(import_module(name)).values():
            if isinstance(value, Resource):
                found[f"{value.group}/{value.plural}"] = value
    return found


def _page(resource: Resource[Any]) -> Callable[[bytes], Any]:
    """An object in a watch."""

    def read(item: bytes) -> Any:
        return read_change(b'{"type":"MODIFIED","object":' + item + b"}", resource).object

    return read


OBJECT: Mapping[str, Any] = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web"},
        "annotations": {"equipoise.dev/evict": "never"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-2"}],
    },
    "spec": {
        "nodeName": "node-a",
        "resourceAttributes": {"verb": "get", "resource": "pods"},
        "user": "a",
        "priority": 9_500,
        "replicas": 3,
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-02T03:04:05.000000Z",
        "containers": [{"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
        "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-02T03:04:05Z",
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "replicas": 3,
    },
    "data": {"ledger": "{}"},
    "timestamp": "2026-01-02T03:04:05Z",
    "usage": {"cpu": "500m", "memory": "1Gi"},
}


def _objects() -> Iterator[Reader]:
    for name, resource in resources().items():
        errors = (KubeError, *DECODE_ERRORS)
        yield Reader(name=f"object {name}", read=_page(resource), example=OBJECT, errors=errors)


def _messages() -> Iterator[Reader]:
    for channel in CHANNELS:
        for example in (channel.example[1], channel.response_example):
            if example is None:
                continue
            decoder = TolerantDecoder(type(example))
            yield Reader(
                name=f"message {type(example).__name__}",
                read=lambda raw, decoder=decoder: plausible(decoder.decode(raw)),
                example=msgspec.to_builtins(example),
                errors=(*DECODE_ERRORS, ValueError),
            )


def series(**labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1_800_000_000.5, "1.5"], "values": [[1_800_000_000, "1"], [1_800_000_015, "2"]]}


SERIES = series(__name__="cpu", node="node-a", namespace="shop", pod="web-1", internal_ip="10.0.0.1")


def _prometheus() -> Iterator[Reader]:
    """One series of an answer."""

    def answer(item: bytes, kind: str) -> Any:
        body = b'{"status":"success","data":{"resultType":"%s","result":[%s]}}' % (kind.encode(), item)
        return result_of(decode_document(body), kind)

    def samples(subject: Subject, read: Callable[..., Any], kind: str) -> Callable[[bytes], Any]:
        return lambda item: read(answer(item, kind), subject, LabelCache(("node", "instance")))

    subjects: tuple[Subject, ...] = ("node", "pod")
    for subject in subjects:
        for name, read, kind in (("vector", vector, "vector"), ("spacings", spacings, "matrix")):
            yield Reader(
                name=f"{name} of {subject}s",
                read=samples(subject, read, kind),
                example=SERIES,
                errors=(SourceError, *DECODE_ERRORS),
            )
    yield Reader(
        name="time of Prometheus",
        read=lambda item: time_of(answer(item, "vector")),
        example=SERIES,
        errors=(SourceError, *DECODE_ERRORS),
    )
    yield Reader(
        name="series for the lab",
        read=lambda item: _series(answer(item, "matrix")),
        example=SERIES,
        errors=(SourceError, *DECODE_ERRORS),
    )


LOAD_WATCHER = {
    "window": {"duration": "15m", "start": 1_799_999_100, "end": 1_800_000_000},
    "data": {"NodeMetricsMap": {"node-a": {"metrics": [{"type": "CPU", "operator": "AVG", "value": 40.5}]}}},
}

STATISTICS = {"sampledAt": "2026-01-02T03:04:05Z", "mean": {"cpu": 0.4, "memory": 0.5}}
ANNOTATIONS: Mapping[str, tuple[Callable[[Mapping[str, str]], Any], Any]] = {
    LOAD: (
        read_node_load,
        {
            "sampledAt": "2026-01-02T03:04:05Z",
            "base": {"cpu": 8, "memory": 1e9},
            "memory": "workingSet",
            "windows": {"5m": STATISTICS},
        },
    ),
    USAGE: (
        read_workload_usage,
        {
            "sampledAt": "2026-01-02T03:04:05Z",
            "replicas": 3,
            "windows": {"5m": STATISTICS},
            "profile": {"cpu": [1.5] * 24, "memory": [1e9] * 24},
        },
    ),
    RECLAIMED: (
        read_node_reclaimed,
        {"evaluatedAt": "2026-01-02T03:04:05Z", "capacity": {"cpu": 8}, "bands": {"batch": {"cpu": 1.5, "hours": 6}}},
    ),
    RAW_ALLOCATABLE: (
        lambda annotations: base_of(_annotated(annotations), "allocatable"),
        {"cpu": "8", "memory": "32Gi"},
    ),
    RESERVATION: (
        lambda annotations: node_colocation(_annotated(annotations)),
        {"resources": {"cpu": "1", "memory": "1Gi"}, "reservedCPUs": "0-3"},
    ),
    THIRD_PARTY: (
        lambda annotations: node_colocation(_annotated(annotations)),
        {"allocations": [{"priority": "koord-batch", "resources": {"kubernetes.io/batch-cpu": "1000"}}]},
    ),
}


def _annotated(annotations: Mapping[str, str]) -> Node:
    amounts = {"cpu": "8", "memory": "32Gi"}
    return Node(
        metadata=ObjectMeta(name="node-a", annotations=dict(annotations)),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _annotations() -> Iterator[Reader]:
    for key, (read, example) in ANNOTATIONS.items():
        yield Reader(
            name=f"annotation {key}",
            read=lambda raw, key=key, read=read: read({key: raw.decode(errors="replace")}),
            example=example,
        )


LEDGER = {
    "formatVersion": 1,
    "createdAt": 1_800_000_000.5,
    "startedAt": 1_800_000_000.5,
    "entries": [
        {
            "intentId": "a",
            "namespace": "shop",
            "pod": "web-1",
            "podUid": "u",
            "node": "node-a",
            "reservedAt": 1_800_000_000.5,
            "expiresAt": 1_800_000_180.5,
        }
    ],
}

CONFIGURATION = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "load": {"memory": "workingSet"},
    "descheduler": {"interval": "2m"},
    "scorer": {"neutral": True, "decisionsPerSecond": 5},
    "reclaimer": {"strategy": {"cpuThreshold": 60}},
}

POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [{"name": "a", "pluginConfig": [{"name": "LowNodeUtilization", "args": {"thresholds": {"cpu": 20}}}]}],
}

SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 50,
    "profiles": [{"schedulerName": "a", "pluginConfig": [{"name": "NodeResourcesFit", "args": {}}]}],
    "extenders": [{"urlPrefix": "http://a", "weight": 5, "prioritizeVerb": "prioritize", "httpTimeout": "1s"}],
}

EXTENDER_ARGUMENTS = {"Pod": OBJECT, "NodeNames": ["node-a", "node-b"]}


KUBECONFIG = {
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
    "clusters": [{"name": "b", "cluster": {"server": "https://10.0.0.1"}}],
}


def _kubeconfig(raw: bytes) -> Any:
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        return chosen_context(file.name, None)


PRICES = {"currency": "EUR", "nodes": [{"instanceType": "m7i.large", "labels": {"pool": "web"}, "perHour": 0.12}]}


def _prices(raw: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prices.yaml"
        file.write_bytes(raw)
        return read_prices(file)


VALUES = {
    "image": {"registry": "registry.example.com"},
    "mode": "observe",
    "collector": {"extraVolumes": [{"name": "token", "secret": {"secretName": "prometheus-client"}}]},
}


def _values(raw: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.yaml"
        file.write_bytes(raw)
        return [*required_objects(given_values([str(file)], []))]


def _documents() -> Iterator[Reader]:
    yield Reader(
        name="configuration",
        read=lambda raw: all_settings(read_document(raw.decode())),
        example=CONFIGURATION,
        errors=(ConfigurationError, UnicodeDecodeError),
    )
    yield Reader(
        name="configuration of another descheduler",
        read=lambda raw: find_document(raw.decode()),
        example=POLICY,
        errors=(ConfigurationError, UnicodeDecodeError),
    )
    yield Reader(
        name="configuration of kube-scheduler",
        read=lambda raw: read_configuration(raw.decode()),
        example=SCHEDULER,
        errors=(InvalidConfiguration, UnicodeDecodeError),
    )
    yield Reader(
        name="extender in a ConfigMap",
        read=lambda raw: entry_finding("a ConfigMap", raw.decode()),
        example=SCHEDULER,
        errors=(UnicodeDecodeError,),
    )
    yield Reader(
        name="policy in a ConfigMap",
        read=lambda raw: list(descheduler_findings([ConfigMap(data={"policy.yaml": raw.decode()})])),
        example=POLICY,
        errors=(UnicodeDecodeError,),
    )
    yield Reader(name="kubeconfig", read=_kubeconfig, example=KUBECONFIG, errors=(InvalidInput,))
    yield Reader(name="prices of nodes", read=_prices, example=PRICES, errors=(InvalidInput,))
    yield Reader(name="values of the chart", read=_values, example=VALUES, errors=(InvalidInput,))
    yield Reader(
        name="ledger",
        read=lambda raw: decode_ledger(raw.decode()),
        example=LEDGER,
        errors=(*DECODE_ERRORS, NewerFormat),
    )
    yield Reader(
        name="moves of a damaged ledger",
        read=lambda raw: kept_moves(raw.decode()),
        example=LEDGER,
        errors=(UnicodeDecodeError,),
    )
    yield Reader(
        name="request of kube-scheduler", read=parse_request, example=EXTENDER_ARGUMENTS, errors=(InvalidRequest,)
    )
    yield Reader(
        name="review of a new pod",
        read=lambda raw: webhook_server.review(raw, lambda _: webhook_server.PROBE_HINTS),
        example=a_review(),
        errors=webhook_server.REVIEW_ERRORS,
    )
    yield Reader(
        name="scores of an extender",
        read=lambda raw: http_extender._decode(raw, list[http_extender.HostScore]),
        example=[{"Host": "node-a", "Score": 7}],
        errors=http_extender._REQUEST_ERRORS,
    )
    yield Reader(
        name="nodes of an extender",
        read=lambda raw: http_extender._decode(raw, http_extender.FilterResponse),
        example={"NodeNames": ["node-a"], "FailedNodes": {"node-b": "full"}},
        errors=http_extender._REQUEST_ERRORS,
    )
    yield Reader(
        name="configuration of the agent",
        read=lambda raw: msgspec.json.decode(raw, type=AgentConfiguration),
        example={"version": "1", "hash": "a", "log_level": "info"},
        errors=DECODE_ERRORS,
    )
    yield Reader(
        name="load-watcher",
        read=lambda raw: msgspec.json.decode(raw, type=WatcherResponse),
        example=LOAD_WATCHER,
        errors=DECODE_ERRORS,
    )


READERS: Mapping[str, Reader] = {
    reader.name: reader
    for source in (_objects, _messages, _prometheus, _annotations, _documents)
    for reader in source()
}

TABLES: Mapping[str, tuple[dict[str, str], bytes | None]] = {
    "alibaba": (ALIBABA, None),
    "alibaba-published": (ALIBABA_PUBLISHED, None),
    "bitbrains": (BITBRAINS, None),
    "bitbrains-published": (BITBRAINS_PUBLISHED, None),
    "openb": (OPENB, None),
    "openb-published": (OPENB_PUBLISHED, None),
    "equipoise": (OWN, ABOUT),
}
"""An example of its tables, by format of the lab."""


def read_tables(tables: dict[str, str], about: bytes | None) -> Any:
    """Raises TraceError."""
    with tempfile.TemporaryDirectory() as folder:
        return load_trace(write_folder(Path(folder) / "trace", tables, about))


def read_proc(text: str) -> tuple[Any, ...]:
    """What an agent reads from the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stat", "meminfo", "devices/system/cpu/online"):
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", errors="replace")
        return read_cpu_times(folder), read_memory(folder), count_cpus(folder)


DECODING_MODULES: Mapping[str, tuple[str, ...]] = {
    "equipoise.agent.shell.api_server": ("object /pods",),
    "equipoise.agent.shell.configuration": ("configuration of the agent",),
    "equipoise.annotator.shell.hints_webhook.server": ("review of a new pod",),
    "equipoise.binder.state.ledger_json": ("ledger", "moves of a damaged ledger"),
    "equipoise.cli.bus.messages": ("message Explanation", "message PlanResponse"),
    "equipoise.cli.consolidate.prices": ("prices of nodes",),
    "equipoise.cli.demo.accounts": (),  # a file of this package
    "equipoise.cli.demo.real.run": (),  # the output of our own commands, in a cluster of the demo
    "equipoise.cli.doctor.checks.colocation": ("message ReclaimedNode",),
    "equipoise.cli.doctor.foreign_configuration": ("extender in a ConfigMap", "policy in a ConfigMap"),
    "equipoise.cli.cluster_access.kubeconfig": ("kubeconfig",),
    "equipoise.cli.install.given_values": ("values of the chart",),
    "equipoise.cli.install.named_objects": ("values of the chart",),
    "equipoise.cli.lab.replays": (),  # a value on the command line
    "equipoise.cli.plan.changes": ("message PlanResponse",),
    "equipoise.cli.up.running_up": (),  # what `up` has written
    "equipoise.cli.up.supervisor": (),  # /readyz of a process that it has started
    "equipoise.collector.sources.load_watcher": ("load-watcher",),
    "equipoise.collector.sources.prometheus.json_document": (
        "vector of nodes",
        "spacings of pods",
        "series for the lab",
    ),
    "equipoise.collector.sources.prometheus.samples": ("time of Prometheus",),
    "equipoise.collector.decisions.node_colocation": (f"annotation {RESERVATION}", f"annotation {THIRD_PARTY}"),
    "equipoise.contracts.bus.decoding": ("message NodeUtilization",),
    "equipoise.contracts.kubernetes.annotations": (f"annotation {LOAD}", f"annotation {USAGE}"),
    "equipoise.contracts.unreadable.lenient_decoding": ("object /pods", "object /nodes"),
    "equipoise.contracts.kubernetes.nodes.raw_allocatable": (f"annotation {RAW_ALLOCATABLE}",),
    "equipoise.lab.formats.folder": (),  # tables: see TABLES
    "equipoise.lab.formats.tables": (),
    "equipoise.lab.record.checkpoint": (),  # what `record` has written
    "equipoise.lab.sweep": (),  # what `sweep` has written
    "equipoise.lab.simulated.deletion_costs": (),  # messages of the replay itself
    "equipoise.runtime.bus.codec": ("message NodeUtilization",),
    "equipoise.runtime.bus.dev_server": (),  # what its nats-server has written
    "equipoise.runtime.bus.inspection": (),  # responses of nats-server itself
    "equipoise.runtime.bus.nats.nats_bus": ("message Explanation",),
    "equipoise.runtime.bus.responder": ("message ExplainRequest", "message PlanRequest"),
    "equipoise.runtime.bus.nats.work_queue": (),  # advisories of nats-server itself
    "equipoise.runtime.configuration.env_overrides": ("configuration",),
    "equipoise.runtime.configuration.errors": ("configuration",),
    "equipoise.runtime.configuration.yaml_text": ("configuration", "configuration of another descheduler"),
    "equipoise.runtime.kubernetes.http.responses": ("object /pods", "object /nodes"),
    "equipoise.scheduling.cluster_scheduler": (),  # objects of the caller's program
    "equipoise.scheduling.settings.document": ("configuration of kube-scheduler",),
    "equipoise.scheduling.settings.plugin_arguments": ("configuration of kube-scheduler",),
    "equipoise.scheduler.shell.http_extender": ("scores of an extender", "nodes of an extender"),
    "equipoise.scorer.decisions.extender_protocol": ("request of kube-scheduler",),
}
"""The readers that cover a module that decodes anything. None: it reads what this machine itself has written."""
