"""How many points adaptive measuring needs for the error of points drawn at random."""
