"""The version of this project, importable without importing anything else."""

__version__ = "0.1.0"
