"""Methods that see each row once: `online` DP-means, and `split_merge` DP-means."""
