"""What to measure: one file per layer kind in `kinds/`, samplers that draw layers, and the plan of a sweep."""
