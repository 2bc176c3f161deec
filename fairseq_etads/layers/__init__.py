"""Modules that hold weights, and the state that decoding keeps for them."""
