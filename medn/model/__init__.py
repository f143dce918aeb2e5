"""Whole models: what their layers cost together, predicted from a bundle."""
