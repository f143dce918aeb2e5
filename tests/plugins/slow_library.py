"""A library that takes its time to import."""

import time

time.sleep(1.0)
