"""`equipoise prepare`: what pods need before they start: passwords, certificates, and the source of metrics."""
