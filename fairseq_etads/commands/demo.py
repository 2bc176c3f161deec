"""The command ``etads-demo`` (summarise): try out a model on a local web page."""

import logging
import os
import socket
import threading
import webbrowser
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from ..platform.command_options import Bounds, DeviceOption, option, options_command
from ..platform.errors import InputError
from ..platform.optional_parts import format_install_command
from ..summarizer.folder.config import DEFAULT, find_default_folder, folder_argument, read_config
from ..summarizer.folder.run_files import is_run
from .shared_options import load_summarizer

LOOPBACK = "127.0.0.1"
PORT = 8000
EXAMPLES = """\
examples:
  etads-demo                        by the included model for news; then open http://127.0.0.1:8000/
  etads-demo model                  then open http://127.0.0.1:8000/
  etads-demo model --open           open the page in the browser
  etads-demo model --port 0         use any free port, and print its number

The page shows a summary while it is being written. It also shows which words of the document the model attends to and
copies. The page needs no network: no text leaves this computer, and no other computer can open the page, which has no
passwords. To open it from another computer, use ssh -L 8000:127.0.0.1:8000 there. The command needs the extra "demo";
etads doctor prints the command that installs it.
"""


@dataclass
class DemoOptions(DeviceOption):
    """Options of ``etads-demo``."""

    folder: Path = folder_argument(f" (default: {DEFAULT})", nargs="?")
    port: int = option(
        PORT,
        "port to listen on; 0 selects any free port",
        bounds=Bounds(0, most=65535, what="a port, or 0 for any free port,"),
    )
    open: Optional[bool] = option(None, "whether to open the page in the default browser (default: no)")


def _check_options(args: DemoOptions) -> None:
    """Check the model folder's configuration and whether the web libraries are installed."""
    args.folder = args.folder or find_default_folder()
    if not is_run(args.folder):
        read_config(args.folder)
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(f"{error.name} is missing: {format_install_command('demo')}") from None


def _open_socket(port: int) -> socket.socket:
    """Open a socket that listens for connections on the loopback interface."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise InputError(f"--port {port}: {reason}; choose another one, or 0 for any free port") from None


def _load_summarizer(args: DemoOptions) -> Any:
    """Load the model, and generate a summary to warm it up."""
    logging.getLogger("asyncio").setLevel(logging.WARNING)  # importing fairseq causes all loggers to show all messages
    summarizer = load_summarizer(args.folder, args.device)
    # The first call converts the weights and loads the tokeniser's rules.
    summarizer.summarize("A first text, so that the page need not wait.")
    return summarizer


def _run_in_thread(work: Callable[[], Any]) -> Any:
    """Run ``work`` in a daemon thread, so that Ctrl-C interrupts the main thread, and return its result."""
    outcome: Future[Any] = Future()

    def run_and_store_result() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run_and_store_result, daemon=True).start()
    return outcome.result()


def _serve(summarizer: Any, title: str, listener: socket.socket) -> None:
    """Serve requests until a signal stops the process."""
    import uvicorn

    from ..demo.server import DemoServer

    demo = DemoServer(summarizer, title)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            # Without this call, the server would wait for unfinished responses.
            demo.close()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        demo.make_app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        # No proxy is in front of the server, so proxy headers cannot be trusted.
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    Server(config).run(sockets=[listener])


@options_command(
    "etads-demo",
    DemoOptions,
    description="Open a model exported with etads-export in the browser and try it out.",
    epilog=EXAMPLES,
)
def main(args: DemoOptions) -> None:
    """Run the command ``etads-demo``."""
    _check_options(args)
    with _open_socket(args.port) as listener:
        print(f"== loading {args.folder}", flush=True)
        # Do not load the model in the main thread, because the main thread's OpenMP threads would then stay alive.
        # Together with the worker's OpenMP threads, there would be more threads than cores, and generating a summary
        # would take up to twice as long.
        summarizer = _run_in_thread(lambda: _load_summarizer(args))
        url = f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
        reads = f"reads the first {summarizer.config.task['truncate_source']:,} tokens of each document"
        if summarizer.picks_sentences:
            reads = "reads the most probable sentences of documents of any length"
        print(f"== loaded on {summarizer.device}; {reads}", flush=True)
        print(f"== the page, for this computer only: {url} (press Ctrl-C to stop)", flush=True)
        if args.open:
            # Use a separate thread, because some browsers block the thread from which they are opened.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        _serve(summarizer, args.folder.resolve().name, listener)
