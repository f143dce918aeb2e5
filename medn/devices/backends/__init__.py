"""One file per backend. A new file with a registered class is a new device."""
