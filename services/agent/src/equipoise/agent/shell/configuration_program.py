"""Prints the configuration of the agent as JSON: `python -m equipoise.agent.shell.configuration_program`.

The agent starts it as another program, because what reads and checks the YAML document takes as much memory as the
whole agent. It reads the same file and environment variables as the other services, and reports errors in the same way.
"""

import os
import sys
from importlib.metadata import version

import msgspec

from equipoise.agent.settings import AgentSettings
from equipoise.runtime.configuration import ConfigurationError, load_configuration
from equipoise.runtime.configuration.errors import encode_value

VERSION = version("equipoise-agent")


def main() -> None:
    path = os.environ.get("EQUIPOISE_CONFIG") or None
    try:
        configuration = load_configuration(path, "agent", AgentSettings, os.environ)
    except ConfigurationError as error:
        document: dict[str, object] = {"version": VERSION, "errors": str(error)}
    else:
        document = {
            "version": VERSION,
            "hash": configuration.hash,
            "agent": configuration.own,
            "service_account": configuration.shared.kubernetes.service_account,
            "log_format": configuration.shared.logging.format,
            "log_level": configuration.shared.logging.level,
        }
    sys.stdout.buffer.write(msgspec.json.encode(document, enc_hook=encode_value))


if __name__ == "__main__":
    main()
