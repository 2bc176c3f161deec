"""Run a console command of this environment, or a Python script, on a simulated GPU.

    [PRETENDED_GPUS=2] python tests/pretended/run_pretending.py COMMAND ...

COMMAND is the name of a console command (fairseq-train, etads-summarize) or a script's path. Processes that the command
starts see no GPU, unless it forks them.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    import pretended_gpu  # noqa: F401  # here, because processes of multiprocessing import this module after torch

    del sys.argv[0]
    sys.argv[:1] or sys.exit(__doc__)
    installed = os.path.join(os.path.dirname(sys.executable), sys.argv[0])
    if os.path.exists(installed):
        sys.argv[0] = installed
    runpy.run_path(sys.argv[0], run_name="__main__")
