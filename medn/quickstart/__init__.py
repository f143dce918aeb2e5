"""The whole flow on this machine in two minutes."""
