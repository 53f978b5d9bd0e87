"""`python -m charts.generator` writes charts/equipoise from k8s/base: docs/decisions/0016-the-chart-is-generated.md."""
