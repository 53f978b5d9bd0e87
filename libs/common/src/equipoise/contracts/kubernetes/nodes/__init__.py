"""What Equipoise reads of nodes, and of their pods."""
