"""Checks of input: missing and oversized chunks, values that are no numbers."""
