"""Functions for other processes, in a module that imports nothing slow."""

from fairseq_etads.text.files import InputError


def nothing():
    pass


def double(items):
    return [2 * item for item in items]


def broken(items):
    if 70 in items:
        raise InputError("line 70: broken")
    return items
