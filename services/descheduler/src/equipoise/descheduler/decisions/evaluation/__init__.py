"""One evaluation: the cluster as it is now, and what is published about it."""
