"""Benchmarks: `make bench`, or `make bench BENCH="score_all burst"`. Progress on stderr, one JSON line per figure."""
