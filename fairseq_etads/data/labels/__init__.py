"""Which words or sentences of a document a summary uses: labels made from references, and their files."""
