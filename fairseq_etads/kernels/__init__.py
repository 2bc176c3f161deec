"""Faster or numerically safer implementations: matrix products, decoding, focus-attention, and layers in float32."""
