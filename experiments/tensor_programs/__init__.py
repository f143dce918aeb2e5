"""How well the latency of tensor programs is predicted, and what that is worth to a search."""
