"""Features that are learned from the rows before a method sees them."""
