"""The exception that all commands report in one line."""


class InputError(ValueError):
    """Exception raised if the input or an option contains an error that the user can correct."""
