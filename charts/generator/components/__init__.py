"""The programs that the chart deploys: the values of each, and what they change in its objects."""
