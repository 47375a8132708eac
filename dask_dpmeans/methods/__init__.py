"""The methods of the papers, one folder a family: states, rules and steps."""
