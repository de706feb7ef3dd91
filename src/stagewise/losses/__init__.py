"""Losses: what a fit minimises. One loop in kernels/pairs.py and one class here for each."""
