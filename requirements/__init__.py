"""Everything that is installed, with versions and hashes (`make lock`), and the SBOM of the image."""
