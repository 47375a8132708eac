"""The hard Gaussian HDP: several data sets that share clusters."""
