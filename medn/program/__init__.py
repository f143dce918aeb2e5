"""Formulas as flat programs of arithmetic and table look-ups, and the engines that run them."""
