"""Tells kube-scheduler where the water is low.

Hears: utilization; placements; intents and outcomes of evictions; questions for scores.
Says: scores and filterings to whoever asks (HTTP extender, `score.prioritize`, `score.filter`); sampled decisions.
Touches: nothing. It knows no API server.
"""
