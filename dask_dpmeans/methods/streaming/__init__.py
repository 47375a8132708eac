"""Methods that see each row once."""
