"""Show Ctrl-C during imports, and wrong options of fairseq's commands, without a traceback."""

import argparse
import linecache
import os
import signal
import sys
import traceback
from types import TracebackType
from typing import Optional, Type

PACKAGES = ("fairseq_etads", "etads_preprocess")


def hide_expected_tracebacks() -> None:
    """Install a hook that shows errors because of options or files of a fairseq command in one line.

    If Ctrl-C interrupts an import of this project's modules, the process exits with status 130.
    """
    plain_hook = sys.excepthook

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        frames = [frame for frame, _ in traceback.walk_tb(trace)]
        own = [str(frame.f_globals.get("__name__")).partition(".")[0] in PACKAGES for frame in frames]
        importing = [frame.f_code.co_name == "<module>" for frame in frames]
        if issubclass(kind, KeyboardInterrupt) and any(map(min, own, importing)):
            os._exit(128 + signal.SIGINT)
        message = _explain_refusal(error, trace) if "cli_main" in [frame.f_code.co_name for frame in frames] else ""
        if message:
            print(f"{argparse.ArgumentParser().prog}: error: {message}", file=sys.stderr)
        else:
            plain_hook(kind, error, trace)

    sys.excepthook = hook


def _explain_refusal(error: BaseException, trace: Optional[TracebackType]) -> str:
    """Return the message of an error that is raised because of options or files, or an empty string."""
    frame, line = list(traceback.walk_tb(trace))[-1]
    module, text = str(frame.f_globals.get("__name__")), " ".join(str(error).split())
    if module.startswith("fairseq_cli.") and isinstance(error, AssertionError):
        if text.startswith("--sampling requires"):
            asked = frame.f_locals["cfg"].generation
            return f"--sampling: give --nbest {asked.beam} or --beam {asked.nbest}"
        return text
    is_deliberate = linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("raise ")
    is_known = module.startswith(PACKAGES[0]) or text.startswith("Model file not found: ")
    return text if is_known and is_deliberate and isinstance(error, (ValueError, OSError)) else ""
