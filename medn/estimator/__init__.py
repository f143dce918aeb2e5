"""Answers for one layer kind on one device: one layer, tables, staircases, gradients."""
