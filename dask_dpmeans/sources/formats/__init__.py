"""Formats of input: CSR rows, tables in Parquet, Arrow and CSV files, cubes, lazy arrays."""
