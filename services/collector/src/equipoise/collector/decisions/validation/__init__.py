"""Which samples are measurements. Everything else is unknown, with a reason, and never 0."""
