"""Samplers: each decides which layers of a space are drawn. A new file with a registered class is a new sampler."""
