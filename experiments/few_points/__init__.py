"""What is learned from few layers: `python -m experiments.few_points`."""
