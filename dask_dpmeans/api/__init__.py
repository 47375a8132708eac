"""From stores to stores: fit, predict, load, dry run, export."""
