"""What is kept between two publications of placement hints.

`score_table` keeps the points of every workload on every node, `node_constraints` the nodes that its pods can use,
`hint_table` the hints, `publication` which of them are published.
"""
