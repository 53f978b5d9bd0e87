"""Prints the recording rules: `python -m equipoise.collector.decisions.profiles [--object]`."""

import sys

import yaml

from equipoise.collector.decisions.profiles.recording_rules import rule_file, rule_object


def main() -> None:
    """A rule file for Prometheus, or with `--object` a PrometheusRule for its operator."""
    document = rule_object() if "--object" in sys.argv[1:] else rule_file()
    print("# Written by: python -m equipoise.collector.decisions.profiles")
    print(yaml.safe_dump(document, sort_keys=False, width=1_000), end="")


if __name__ == "__main__":
    main()
