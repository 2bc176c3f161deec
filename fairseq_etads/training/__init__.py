"""The fairseq task, with options, checks, losses, optimisers and validation."""
