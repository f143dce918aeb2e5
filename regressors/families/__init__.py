"""One file per family of regressors. A new file with a registered class is a new regressor."""
