"""Define the exception that commands report in one line."""


class InputError(ValueError):
    """Raised for a mistake in the input or the options that the user can correct. Commands report it in one line."""
