"""Predictions from a bundle: one layer, tables of layers, staircases and gradients."""
