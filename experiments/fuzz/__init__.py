"""Fuzzers for what comes from outside: bundles, tables and ONNX files. They run as long as they are told to."""
