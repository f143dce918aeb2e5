"""Layers that compiled backends run as one: read from their own graphs, kept as rules, applied to captured models."""
