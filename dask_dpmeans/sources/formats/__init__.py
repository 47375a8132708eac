"""Formats of input: CSR rows, Parquet tables, lazy arrays."""
