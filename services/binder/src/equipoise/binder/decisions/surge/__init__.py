"""The decisions about moves without a gap."""
