"""Parts of proofs of lower bounds of the objective, which `methods.lower_bound` puts together.

- Prices of rows: `surplus` has the most that priced rows would pay for a center, `micro_surplus` the
  same for rows that are known by `micro_clusters` alone, `barrier` the linear program that finds the
  prices, `main_axes` a projection on few columns.
- The semidefinite relaxation: `relaxation` has a step of its solver, `triangle_cuts` inequalities
  that make it tighter, `relaxation_proof` the bound that follows from any multipliers.
"""
