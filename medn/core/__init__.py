"""The ground every other part stands on: values, errors, registry, configuration, store, statistics. No torch here."""
