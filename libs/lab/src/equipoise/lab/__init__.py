"""The lab: replays clusters in virtual time, with the services' own decisions, and compares what they make of them."""
