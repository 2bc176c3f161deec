"""Faster or numerically safer computations: products on CPUs, focus-attention, and layers in float32."""
