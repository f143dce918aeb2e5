"""Measuring only what is needed: how the error falls with more layers, and where the next ones pay most."""
