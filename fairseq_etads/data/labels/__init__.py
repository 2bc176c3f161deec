"""Label the words or sentences of documents that match the reference summaries, and store the labels in files."""
