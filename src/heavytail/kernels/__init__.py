"""All that must be fast: plain scalar code on preallocated arrays, one source for Python, CPU and
GPU.
"""
