"""The error that commands show as one line."""


class InputError(ValueError):
    """A mistake in the input or the options that the user can correct; commands show it as one line."""
