"""Public measurements as tables: one file per data set, each with its inputs and its split."""
