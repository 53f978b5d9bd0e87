"""Pressure (PSI) of nodes and pods: its queries, and which values can be true."""
