"""Everything that is installed, with versions and hashes (`make lock`), the SBOM of the image, and the build of a release."""
