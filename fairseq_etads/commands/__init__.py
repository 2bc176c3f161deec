"""Commands about architectures and checkpoints: etads-models, etads-average."""
