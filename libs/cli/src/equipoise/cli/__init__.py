"""The program `equipoise`: a folder for each command, and the modules that commands share."""
