"""Faster or safer computations of the same numbers: products on CPUs, focus-attention, precision."""
