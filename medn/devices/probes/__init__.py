"""One file per probe: something about the machine that is recorded with every visit and can become an input."""
