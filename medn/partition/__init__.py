"""Partitioning: which layers of a model run where, by the seconds that a predictor gives them."""
