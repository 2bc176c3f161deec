"""Call commands in this process so that they end like their programs."""

import functools


def as_program(main):
    """Wrap a command's ``main`` to raise SystemExit where the program would end with a status other than 0."""

    @functools.wraps(main)
    def call(argv):
        status = main(argv)
        if status:
            raise SystemExit(status)

    return call
