"""Writes the recording rules: `python -m equipoise.collector.sources.profiles [--object]`."""

import sys

import yaml

from equipoise.collector.sources.profiles.recording_rules import rule_file, rule_object


def main() -> None:
    """A file for Prometheus, or with `--object` a PrometheusRule for its operator, to standard output."""
    document = rule_object() if "--object" in sys.argv[1:] else rule_file()
    print("# Written by: python -m equipoise.collector.sources.profiles")
    print(yaml.safe_dump(document, sort_keys=False, width=1_000), end="")


if __name__ == "__main__":
    main()
