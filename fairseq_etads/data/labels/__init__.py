"""Label the words or sentences of a document that occur in the reference summary, and read and write such labels."""
