"""Adds placement hints to new pods, for API servers without MutatingAdmissionPolicy.

Serves: admission reviews of new pods, for the API server.
API access: lists and watches the PlacementHints of all namespaces.

It uses no bus: hints that were written before the bus failed remain valid until they expire.
"""
