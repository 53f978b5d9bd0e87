"""`equipoise annotations`: the annotations that the annotator writes."""
