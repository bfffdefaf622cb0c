"""Learning from logs: what a policy would have earned on decisions that others made."""
