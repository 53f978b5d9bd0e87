"""Which of utilization and pressure predicts the latency of a server, and what pods leave because of each."""
