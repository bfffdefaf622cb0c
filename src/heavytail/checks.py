"""Public conformance checks."""
