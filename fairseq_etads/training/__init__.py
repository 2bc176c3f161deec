"""The task, its options and checks, losses, optimisers and validation."""
