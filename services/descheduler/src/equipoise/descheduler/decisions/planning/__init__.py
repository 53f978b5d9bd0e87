"""Which pods should move where: thresholds, classification, targets, and the projected load after each move."""
