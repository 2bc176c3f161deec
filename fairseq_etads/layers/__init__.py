"""Neural network modules, and the states that they cache during decoding."""
