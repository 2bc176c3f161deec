"""Handle Ctrl-C while a command is importing modules."""

import os
import signal
import sys
from types import TracebackType
from typing import Optional, Type

PACKAGES = ("fairseq_etads", "etads_preprocess")


def hide_interrupts_while_importing() -> None:
    """Install a hook that hides the traceback if Ctrl-C interrupts the import of this project's modules.

    The process exits with status 130. While a command is running, signals are handled by
    :func:`fairseq_etads.platform.console.report_errors_in_one_line` instead.
    """
    plain_hook = sys.excepthook

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        if issubclass(kind, KeyboardInterrupt) and _is_raised_during_import(trace):
            os._exit(128 + signal.SIGINT)
        plain_hook(kind, error, trace)

    sys.excepthook = hook


def _is_raised_during_import(trace: Optional[TracebackType]) -> bool:
    """Return whether an exception was raised while a module of this project was being imported."""
    while trace is not None:
        frame = trace.tb_frame
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if frame.f_code.co_name == "<module>" and package in PACKAGES:
            return True
        trace = trace.tb_next
    return False
