"""The demo on real nodes: from the image and the chart to an eviction."""
