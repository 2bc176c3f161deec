"""The words and bigrams that a summary is likely to have, and the choice of sentences by the ROUGE expected of them."""
