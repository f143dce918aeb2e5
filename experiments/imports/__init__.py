"""Mappings of public tables that come with medn, each by the name of its file: `medn list mappings`."""
