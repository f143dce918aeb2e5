"""From candidates to what ships: costs, ensembles, the choice within a budget, leaderboard and bundle."""
