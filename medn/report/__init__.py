"""The report of a run, and of two runs side by side: each one HTML file that needs no network."""
