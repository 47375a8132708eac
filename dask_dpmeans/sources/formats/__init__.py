"""Formats of input: CSR rows, tables in Parquet, Arrow and CSV files, cubes, lazy arrays.

`csr` and `csr_files` are sparse rows, `tables` opens `table_files` and `csv_files`, `cube` and
`cube_opening` open cubes of xarray (`ome` images), `h5ad` files of AnnData, and `lazy` maps rows of
Dask.
"""
