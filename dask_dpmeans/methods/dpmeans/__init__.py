"""DP-means: batch sweeps, the search for a low objective, and paths of penalties."""
