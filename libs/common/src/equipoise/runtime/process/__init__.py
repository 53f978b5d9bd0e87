"""What every service process has: start, signals, health, logging, metrics, reload."""
