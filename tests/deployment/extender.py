"""What `equipoise certificates` makes, brought to where the shipped entries of kube-scheduler look for it."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

URL = "https://equipoise-scorer.equipoise-system.svc:8888"
CLIENT_FOLDER = "/etc/equipoise/extender"
SERVER_SECRET, CLIENT_SECRET = "equipoise-extender-tls", "equipoise-extender-client"
SECRET_KEYS = ("tls.crt", "tls.key", "ca.crt")
"""Of both."""

Secrets = Mapping[str, Mapping[str, str]]
"""Name of a Secret to its keys and their content."""


def made_secrets(folder: Path) -> Secrets:
    """As the steps that the program prints would make them."""
    program = Path(sys.executable).with_name("equipoise")
    said = subprocess.run((program, "certificates", "--out", folder), capture_output=True, text=True, check=True).stdout
    return {
        name: {key: Path(file).read_text() for key, file in re.findall(r"--from-file=(\S+?)=(\S+)", sources)}
        for name, sources in re.findall(r"create secret generic (\S+)(.*?)kubectl apply", said, re.DOTALL)
    }


def entry_here(text: str, url: str, client_folder: Path) -> str:
    """A shipped KubeSchedulerConfiguration, with the scorer's address and the client's files here."""
    assert URL in text
    assert CLIENT_FOLDER in text
    return text.replace(URL, url).replace(CLIENT_FOLDER, str(client_folder))


def lay_out(folder: Path, files: Mapping[str, str]) -> Path:
    """As a volume has them."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder
