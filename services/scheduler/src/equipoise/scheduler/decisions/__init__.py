"""Pure: arguments in, a decision and its reasons out. No I/O, no time, no randomness."""
