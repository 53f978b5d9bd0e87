"""Fewer nodes: Karpenter's consolidation and Equipoise's, on the same pods and the same day."""
