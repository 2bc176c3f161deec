"""Faster or numerically safer implementations: matrix products on CPUs, focus-attention, and layers in float32."""
