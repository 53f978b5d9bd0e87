"""The most even placement of the pods of a trace that a search finds when it knows all usage in advance."""
