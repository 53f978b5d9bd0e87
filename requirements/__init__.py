"""Versions and hashes of everything that is installed (`make lock`), the SBOM of the image, and the release."""
