"""The files of a release: their build, signature and verification, and an installation from them (`make release`)."""


class ReleaseError(Exception):
    """A release cannot be built, or must not be used; the message states why, and what to do."""
