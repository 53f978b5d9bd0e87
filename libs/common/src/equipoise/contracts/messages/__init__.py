"""Every message on the bus, one file per family of subjects. A message is also the domain value and the test value.

Fields that end in `_at` are Unix seconds (UTC). Usage is cores and bytes; load is a share (0..1) of the base. An
unknown value is None, never 0. Readers ignore unknown fields, and messages only gain fields with defaults, so that old
readers work with new writers.

Each file ends with examples of its messages, about one pod that is evicted from a hot node; docs/events.md shows them.
Types that no family owns have their own file: `message`, `resources`, `pod_demand`, `lease`. Which service
publishes and receives each message is defined in `contracts/bus/channels.py`.
"""
