"""MEDN, the multi-task encoder-decoder network."""
