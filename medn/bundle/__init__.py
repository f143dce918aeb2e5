"""The bundle: one file that holds everything a prediction needs, read without trusting it."""
