"""`equipoise rebalance`: one supervised run of moves, with a budget and an end."""
