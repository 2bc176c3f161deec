"""Create labels for the words or sentences of a document that match the reference summary, and store them in files."""
