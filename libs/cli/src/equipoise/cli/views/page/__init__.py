"""The page: what the browsers receive, and the server that sends it."""
