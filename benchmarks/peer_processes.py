"""Run the systems in a benchmark in separate processes, so that they do not affect each other."""

import json
import subprocess
import sys


class ScriptProcess:
    """Python script that runs in a separate process and responds to each line of JSON with a line of JSON.

    Args:
        script, *arguments: path of the Python script, and its arguments.
        options: options of ``subprocess.Popen``.
    """

    def __init__(self, script, *arguments, **options):
        command = [sys.executable, script, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def read_reply(self):
        """Read the next line that the script prints, and decode the JSON value in it."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.process.args)}: ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, question):
        """Send a request to the script and return the response."""
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.read_reply()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
