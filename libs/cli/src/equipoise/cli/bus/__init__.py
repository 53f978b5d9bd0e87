"""The bus, as commands use it: the connection, requests and retained messages, and the cluster that it belongs to."""
