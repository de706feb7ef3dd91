"""Numba kernels: plain functions on arrays. Nothing here knows about estimators, losses or frames."""
