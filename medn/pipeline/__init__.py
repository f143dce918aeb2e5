"""The stages of a run, one file each: sweep, import, export, summary."""
