"""From raw text to words and back."""
