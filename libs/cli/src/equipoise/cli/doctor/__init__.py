"""`equipoise doctor`: looks at everything that Equipoise stands on, and says what is wrong and what to do.

CHECKS has every check by name, in the order in which they are told. Another one is a file and a line there. A check
only looks: it writes nothing and asks nothing that changes anything.
"""
