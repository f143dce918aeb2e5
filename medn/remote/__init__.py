"""Devices at the other end of a pipe: an agent that makes visits there, and the link to it."""
