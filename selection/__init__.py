"""Which regressors to ship: the most accurate ones within a prediction-time and a size budget."""
