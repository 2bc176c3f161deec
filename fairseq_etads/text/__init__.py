"""Text: reading files, cutting lines into sentences and words, and joining words into text again."""
