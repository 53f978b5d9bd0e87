"""`equipoise report`: what is uneven in the cluster now, why, and what the descheduler would change."""
