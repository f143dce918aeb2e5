"""Programs that find a model for any table, each run in an environment of its own: one file per peer."""
