"""Pure functions on one block of rows, and how two of their answers become one."""
