"""The scheduling framework: extension points, and the order in which plugins are called."""
