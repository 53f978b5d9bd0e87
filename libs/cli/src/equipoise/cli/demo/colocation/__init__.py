"""The demo with co-location: batch pods run on what the reclaimer offers."""
