"""The files of a node belong together."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from equipoise.testbed.real_nodes.addresses import node_address, pod_range
from equipoise.testbed.real_nodes.certificates import ClusterCertificates, create_certificates
from equipoise.testbed.real_nodes.node_files import FOLDER, node_files


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> ClusterCertificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return create_certificates(tmp_path_factory.mktemp("certificates"), 2)


def test_every_file_that_a_configuration_names_exists(certificates: ClusterCertificates) -> None:
    files = node_files(2, certificates, 6443)
    named = {word for text in files.values() for word in text.split('"') if word.startswith(f"{FOLDER}/")}

    assert named
    assert named <= files.keys()


def test_the_kubelet_is_the_user_of_its_node(certificates: ClusterCertificates) -> None:
    user = json.loads(node_files(2, certificates, 6443)[f"{FOLDER}/kubelet.kubeconfig"])["users"][0]["user"]

    assert user["client-certificate"] == f"{FOLDER}/n2-client.crt"


def test_settings_of_a_node_replace_the_usual_ones_and_containerd_has_the_cgroup_driver_of_the_kubelet(
    certificates: ClusterCertificates,
) -> None:
    usual = node_files(1, certificates, 6443)
    files = node_files(2, certificates, 6443, {"cgroupDriver": "systemd", "cpuManagerPolicy": "static"})
    kubelet = json.loads(files[f"{FOLDER}/kubelet.yaml"])

    assert (kubelet["cgroupDriver"], kubelet["cpuManagerPolicy"]) == ("systemd", "static")
    assert kubelet["tlsCertFile"] == f"{FOLDER}/n2-server.crt"
    assert "SystemdCgroup = true" in files["/etc/containerd/config.toml"]
    assert "SystemdCgroup = false" in usual["/etc/containerd/config.toml"]
    assert json.loads(usual[f"{FOLDER}/kubelet.yaml"])["cgroupDriver"] == "cgroupfs"


def test_the_pods_of_two_nodes_have_different_addresses(certificates: ClusterCertificates) -> None:
    networks = [
        json.loads(node_files(number, certificates, 6443)["/etc/cni/net.d/10-bridge.conflist"]) for number in (1, 2)
    ]
    ranges = [network["plugins"][0]["ipam"]["ranges"][0][0]["subnet"] for network in networks]

    assert ranges == [pod_range(1), pod_range(2)]
    assert len({*ranges, node_address(1), node_address(2)}) == 4


def test_a_strict_client_trusts_the_api_server(certificates: ClusterCertificates) -> None:
    """Python from 3.13 on verifies as `-x509_strict` does."""
    server = certificates.certificate("apiserver")
    subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", certificates.ca, server], check=True)


def test_the_file_of_the_api_server_contains_its_certificate_and_the_ca(
    certificates: ClusterCertificates, tmp_path: Path
) -> None:
    """Clients trust it as they trust the file of a self-signed certificate."""
    text = certificates.certificate("apiserver").read_text()

    assert text.count("BEGIN CERTIFICATE") == 2
    assert certificates.ca.read_text() in text
