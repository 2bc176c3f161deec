"""Systems that a benchmark compares, each in a process of its own, so that they do not disturb each other."""

import json
import subprocess
import sys


class Peer:
    """A Python script that runs beside this one and answers each line of JSON with one.

    Args:
        script, *arguments: what Python runs. options: of ``subprocess.Popen``.
    """

    def __init__(self, script, *arguments, **options):
        command = [sys.executable, script, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def told(self):
        """The next line that the script prints."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.process.args)}: ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, question):
        """What the script answers."""
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.told()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
