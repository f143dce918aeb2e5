"""From the tables of a run to candidates: tuned, fitted, exported, calibrated and scored."""
