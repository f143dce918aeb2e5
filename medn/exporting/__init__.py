"""Latency tables in the formats that other programs read: once-for-all, HALP and HAQ."""

from medn.exporting.exporter import exporters as exporters
