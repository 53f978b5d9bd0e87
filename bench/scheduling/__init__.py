"""What placement by load costs a scheduler, and how evenly it places."""
