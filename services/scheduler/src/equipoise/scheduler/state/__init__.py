"""Pure: what is kept between messages. No I/O; the time is an argument."""
