"""The fairseq task with its options and checks, the losses, the optimisers and the validation."""
