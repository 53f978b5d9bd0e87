"""`equipoise lab`: replays of recorded clusters."""
