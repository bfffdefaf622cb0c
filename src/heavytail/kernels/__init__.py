"""Kernels that two or more algorithms use: scalar code, one source for Python, CPU and GPU."""
