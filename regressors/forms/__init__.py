"""One file per sort of computation that a deployed regressor can be."""
