"""Modules with weights, and their state during decoding."""
