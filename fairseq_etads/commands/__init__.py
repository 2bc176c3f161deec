"""The commands that deal with architectures and checkpoints: etads-models, etads-average."""
