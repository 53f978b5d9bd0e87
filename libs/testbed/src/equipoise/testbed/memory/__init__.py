"""Bus, API server and clock inside one process: for tests, dry runs and the lab."""
