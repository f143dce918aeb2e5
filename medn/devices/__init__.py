"""Where and how a layer is timed: the measuring loop, the load that holds a utilisation, and one file per backend."""
