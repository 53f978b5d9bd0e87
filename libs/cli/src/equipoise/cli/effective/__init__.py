"""The configuration that services run with, as they publish it: what commands show as being in effect."""
