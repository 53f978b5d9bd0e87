"""The certificates of `equipoise certificates`, and their paths in the shipped kube-scheduler configuration."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

URL = "https://equipoise-scorer.equipoise-system.svc:8888"
CLIENT_FOLDER = "/etc/equipoise/extender"
SERVER_SECRET, CLIENT_SECRET = "equipoise-extender-tls", "equipoise-extender-client"
SECRET_KEYS = ("tls.crt", "tls.key", "ca.crt")
"""Of every Secret."""

NATS_SECRET = "equipoise-nats-tls"

SERVER_FILES = {
    f"{folder}/{file}": f"{secret}/{key}"
    for folder, secret in (("extender", SERVER_SECRET), ("nats", NATS_SECRET))
    for file, key in (("server.crt", "tls.crt"), ("server.key", "tls.key"), ("ca.crt", "ca.crt"))
}
"""The files of `equipoise certificates` in secrets/extender and secrets/nats, and their keys in the Secrets."""

Secrets = Mapping[str, Mapping[str, str]]
"""Content by name of the Secret and key."""


def create_secrets(folder: Path) -> Secrets:
    """The Secrets that the commands printed by the program would create, for both purposes."""
    program = Path(sys.executable).with_name("equipoise")
    output = "".join(
        subprocess.run(
            (program, "certificates", "--for", purpose, "--out", folder / purpose),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for purpose in ("extender", "nats")
    )
    return {
        name: {key: Path(file).read_text() for key, file in re.findall(r"--from-file=(\S+?)=(\S+)", sources)}
        for name, sources in re.findall(r"create secret generic (\S+)(.*?)kubectl apply", output, re.DOTALL)
    }


def local_configuration(text: str, url: str, client_folder: Path) -> str:
    """A shipped KubeSchedulerConfiguration with this address of the scorer and this folder of client files."""
    assert URL in text
    assert CLIENT_FOLDER in text
    return text.replace(URL, url).replace(CLIENT_FOLDER, str(client_folder))


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Creates the folder."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder
