"""The spectral relaxation of DP-means: `relaxation` makes the embedding, `eigen` its eigenvectors."""
