"""Measuring and studying the platform: benchmarks that compare it, in pairs, with doing the same without it."""
