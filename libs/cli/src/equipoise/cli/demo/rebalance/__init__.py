"""The demo of a campaign: empty nodes join a cluster, and `equipoise rebalance` fills them."""
