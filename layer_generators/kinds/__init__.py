"""One file per layer kind, holding every fact of that kind. A new file with a registered class is a new kind."""
