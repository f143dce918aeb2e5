"""Public measurements as runs: which table, which mappings, and what others reached on the same rows."""
