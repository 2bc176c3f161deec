"""Faster or numerically safer versions of computations: products on CPUs, focus-attention, float32 layers."""
