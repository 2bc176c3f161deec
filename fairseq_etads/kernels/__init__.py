"""Code that makes the same numbers faster or safer: products on CPUs, focus-attention, precision."""
