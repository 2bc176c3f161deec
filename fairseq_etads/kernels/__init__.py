"""Computations that are faster or numerically safer: products on CPUs, focus-attention, layers in float32."""
