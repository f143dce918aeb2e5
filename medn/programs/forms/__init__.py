"""Deployed forms that read programs: plain arrays, evaluated by NumPy."""
