"""A run folder as data: what it holds, its layers as tables, and the kinds that it brings along."""
