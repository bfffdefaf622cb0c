"""Benchmarks: ratios in one run, never in tests."""
