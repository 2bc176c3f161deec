"""The systems that the papers compare with, a folder each. The rest of the package never imports them."""
