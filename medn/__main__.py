"""`python -m medn` is the same as `medn`."""

from medn.cli.main import main

main()
