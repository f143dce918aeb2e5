"""Sweep configs that come with medn, each by the name of its file: `medn list configs`."""
