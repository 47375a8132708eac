"""The methods of the papers, one folder a family: states, rules and steps.

`common` has the bases of states and methods.  In each folder `batch` is Algorithm 1 or 2 of the
paper, `search` the search for the lowest objective, and `chooser` the choice of a penalty.
"""
