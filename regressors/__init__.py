"""How to predict: one file per family in `families/`, each exported to one of the plain computations in `forms/`."""
