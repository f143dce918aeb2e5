"""Programs that optimise models, with medn in their loop. Each really runs."""
