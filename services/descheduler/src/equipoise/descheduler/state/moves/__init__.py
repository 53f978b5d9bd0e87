"""What is known of moves that are pending, that have ended, and that belong to a campaign."""
