"""Whether a bundle still describes this machine: a few layers measured again, and a sequential test on them."""
