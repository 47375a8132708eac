"""Choosing a penalty, cutting a tree of clusters, and comparing labels."""
