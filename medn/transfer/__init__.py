"""A new device from few measurements: which points, what it leans on, and which devices are alike."""
