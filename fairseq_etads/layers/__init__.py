"""Modules with weights, and the state that decoding keeps for them."""
