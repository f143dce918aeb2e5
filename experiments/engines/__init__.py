"""The engines that answer queries: bundles to compare them with, and how far they agree."""
