"""The families that predict tensor programs, one file each."""
