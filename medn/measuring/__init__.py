"""Sweeps: every point of a plan visited on its device, every visit committed at once."""
