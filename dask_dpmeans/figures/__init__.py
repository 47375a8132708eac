"""Pictures: the data of each, and its drawing."""
