"""One module a method: `Method`, a frozen dataclass of parameters, and `State`, a frozen dataclass of arrays."""
