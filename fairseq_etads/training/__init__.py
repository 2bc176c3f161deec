"""The fairseq task for summarisation, with its options, checks, losses, optimisers and validation."""
