"""What is known of other devices: bundles kept in a run, as what a predictor for a new device leans on."""
