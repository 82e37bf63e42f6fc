"""Benchmarks that `ffdl bench` runs: each measures two ways of doing the same in turn, and reports ratio and spread."""
