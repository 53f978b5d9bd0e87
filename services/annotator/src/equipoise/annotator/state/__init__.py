"""Pure: state between messages. No I/O; the time is an argument."""
