"""Commands called in this process that end as their programs do."""

import functools


def as_program(main):
    """The ``main`` of a command that raises SystemExit where the program would end with another status than 0."""

    @functools.wraps(main)
    def call(argv):
        status = main(argv)
        if status:
            raise SystemExit(status)

    return call
