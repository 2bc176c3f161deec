"""Neural network modules, and the state that they keep during decoding."""
