"""One file per format of another tool. A new file with a registered class is a new format of `medn tables`."""
