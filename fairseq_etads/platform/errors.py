"""The error that commands report in one line."""


class InputError(ValueError):
    """A mistake in the input or the options that the user can correct; commands report it in one line."""
