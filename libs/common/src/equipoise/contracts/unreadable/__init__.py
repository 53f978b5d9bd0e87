"""Objects of the API server that cannot be decoded completely, or that contain what cannot be true."""
