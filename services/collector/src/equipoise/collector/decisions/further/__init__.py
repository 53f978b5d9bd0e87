"""Further resources (`load.resources`): their queries, and the usage that the results show."""
