"""The scikit-learn side: one file an estimator, each with its `MethodSpec`.

`base` has what estimators share: fits and predictions; `checked_rows` checks rows against a fit.  `auto`,
`divergences`, `membership`, `outliers`, `cubes` and `bounded` each add one ability.  A `FeatureMap`
(`transform`) learns from the rows before the fit: `divergence_map`, `geography`, `kernel_maps` and
`embedding`.
"""
