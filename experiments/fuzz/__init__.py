"""Fuzzers for what comes from outside: bundles and tables. They need atheris and run as long as they are told to."""
