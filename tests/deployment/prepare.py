"""Runs the Job `equipoise-prepare` of the chart as a process, with its account and its variables."""

import asyncio
import os
import sys
from pathlib import Path
from typing import NamedTuple

from deployment.base import NAMESPACE
from deployment.helm import Helm, documents_in
from deployment.kustomize import Document

from equipoise.testbed.cluster import Cluster

ACCOUNT = "equipoise-prepare"


class Output(NamedTuple):
    code: int
    text: str
    """What it printed, errors included."""


CHECK = "-check"


def prepare_documents(helm: Helm, values: Document | None = None) -> list[Document]:
    """The objects of the hook that Helm creates before all others, but for `check_jobs`."""
    return [each for each in _hook(helm, values) if not each["metadata"]["name"].endswith(CHECK)]


def check_jobs(helm: Helm, values: Document | None = None) -> list[Document]:
    """The Job without pods that the API server must admit before the others are created."""
    return [each for each in _hook(helm, values) if each["metadata"]["name"].endswith(CHECK)]


def _hook(helm: Helm, values: Document | None) -> list[Document]:
    found = documents_in(helm.text(values))
    return [each for each in found if "pre-install" in each["metadata"].get("annotations", {}).get("helm.sh/hook", "")]


async def run_prepare(cluster: Cluster, documents: list[Document]) -> Output:
    """The program of the Job. The other objects are applied before: it deletes its bindings."""
    await cluster.apply([each for each in documents if each["kind"] != "Job"])
    (job,) = (each for each in documents if each["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    token = await cluster.service_account_token(NAMESPACE, job["spec"]["template"]["spec"]["serviceAccountName"])
    fields = {"metadata.namespace": NAMESPACE}
    variables = {
        each["name"]: each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container["env"]
    }
    environment = {"PATH": os.environ["PATH"], **cluster.in_cluster_environment, **variables}
    environment["EQUIPOISE_KUBERNETES__SERVICE_ACCOUNT"] = str(token.parent)
    (configuration,) = (each for each in documents if each["kind"] == "ConfigMap")
    file = token.parent / "equipoise.yaml"
    file.write_text(configuration["data"]["equipoise.yaml"])
    environment["EQUIPOISE_CONFIG"] = str(file)
    program, *arguments = container["command"]
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name(program),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return Output(process.returncode, output.decode())
