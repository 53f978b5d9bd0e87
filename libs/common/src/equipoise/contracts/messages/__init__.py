"""Every message of the bus, a file per family of subjects. A message is also the domain value and the test value.

Fields that end in `_at` are Unix seconds (UTC). Usage is cores and bytes; load is a share (0..1) of the base.
A value that is not known is None, never 0. Messages ignore fields they do not know, and only ever gain fields
with defaults, so that old readers survive new writers.

A part stands in the file of the family it tells of, whoever else uses it. What is no family's own has a file to itself:
`message`, `resources`, `pod_demand`, `lease`. Who says what to whom is in `contracts/subjects.py`.
"""
