"""Blocks of a model: sub-modules that are timed in turns, to learn how its layers compose on this machine."""
