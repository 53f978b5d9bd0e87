"""`equipoise run`: one service in this process."""
