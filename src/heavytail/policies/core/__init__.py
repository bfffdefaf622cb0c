"""The parts that every policy is made of; each algorithm has its own file one folder up."""
