"""Label the words or sentences of a document that match the reference summary, and read and write these labels."""
