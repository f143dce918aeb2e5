"""Predictions over HTTP, for optimizers in other languages: `medn serve BUNDLE`."""
