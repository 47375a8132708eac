"""Checks of input: missing and oversized chunks, values that are no numbers.

`checked_store` reads stored chunks, `bounded_codecs` decodes no more of them than their size, and
`value_checks` looks at the numbers.
"""
