"""`equipoise hints`: the placement hints that new pods of a workload or of a namespace get."""
