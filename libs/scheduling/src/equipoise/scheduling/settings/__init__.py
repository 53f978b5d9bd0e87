"""The parts of a KubeSchedulerConfiguration. `configuration.py` beside this folder reads the whole."""
