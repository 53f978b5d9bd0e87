"""Fewer nodes: Equipoise empties nodes that Karpenter has made, and Karpenter removes them."""
