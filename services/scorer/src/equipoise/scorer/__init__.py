"""Tells kube-scheduler where the water is low.

Hears: utilization; placements; intents and outcomes of evictions; questions for scores.
Says: scores and filterings to whoever asks (HTTP extender, `score.prioritize`, `score.filter`), and how
    they come about (`score.explain`); sampled decisions; advice on placed pods and reviews of the fleet.
Touches: nothing. It knows no API server.
"""
