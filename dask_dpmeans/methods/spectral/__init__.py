"""The spectral relaxation of DP-means."""
