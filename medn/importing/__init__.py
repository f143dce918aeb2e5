"""Measurements made elsewhere, brought into a run."""
