"""How fast measuring and predicting are."""
