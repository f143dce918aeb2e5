"""A layer kind, a regressor and a table format for medn."""
