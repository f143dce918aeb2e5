"""Runs that were made apart, brought together as one."""
