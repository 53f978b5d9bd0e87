"""The parts of a cluster in a replay: its pods, and what the collector, the annotator and the binder do with them."""
