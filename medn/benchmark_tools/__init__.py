"""Layers as files for the benchmark tools of devices that no Python reaches, and what such tools tell of them."""
