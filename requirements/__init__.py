"""Versions and hashes of everything that is installed (`make lock`), and the SBOM of the image."""
