"""`equipoise report`: what the advice of the last days adds up to."""
