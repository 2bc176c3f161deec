"""The Starlette application that serves the web page, its form fields, and summaries."""

import asyncio
import contextlib
import json
import secrets
from pathlib import Path
from typing import Any, AsyncIterator, Dict, Optional, Tuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..platform.console import escape_unprintable
from ..platform.errors import InputError
from ..summarizer import Explanation
from . import form
from .events import stream_summary_events
from .local_access import LocalOnlyMiddleware
from .worker import Job, QueueFullError, Worker

PAGE = Path(__file__).with_name("page")
FILES = {
    "/": ("index.html", "text/html"),
    "/demo.js": ("demo.js", "text/javascript"),
    "/demo.css": ("demo.css", "text/css"),
    "/examples.json": ("examples.json", "application/json"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Mapping from URL paths to files in the folder ``page`` and their media types. No other files are served."""

MAX_BYTES = 1_000_000
"""Maximum size of a request body in bytes."""
MAX_WAITING = 8
"""Maximum number of summaries that can wait while another summary is being generated."""
MAX_EXPLANATIONS = 8
"""Number of recent explanations that are kept in memory, so that their pages can be served."""
SECONDS_TO_STOP = 5.0
"""Maximum number of seconds to wait for a search step to end when the server shuts down."""


class BadRequestError(Exception):
    """Exception raised for an invalid request. It contains the HTTP status and the text of the response."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status, self.words = status, words


class EventStream(StreamingResponse):
    """Response that streams events as JSON lines. The job is stopped when the client disconnects."""

    def __init__(self, job: Job, events: AsyncIterator[Dict[str, Any]]):
        super().__init__(_encode_as_json_lines(events), media_type="application/x-ndjson")
        self.job = job

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send all events, and stop the job afterwards."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.job.stop()


async def _encode_as_json_lines(events: AsyncIterator[Dict[str, Any]]) -> AsyncIterator[bytes]:
    async for event in events:
        yield json.dumps(event, allow_nan=False).encode() + b"\n"


class DemoServer:
    """State of the server, and handlers for all routes.

    Args:
        summarizer: summariser that was loaded from the model folder.
        title: model name to show on the page.
    """

    def __init__(self, summarizer: Any, title: str):
        self.summarizer, self.title = summarizer, title
        self.worker = Worker(MAX_WAITING)
        self._explanations: Dict[str, Explanation] = {}
        self.files = {path: ((PAGE / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}

    def make_app(self) -> Starlette:
        """Create the Starlette application. The worker is stopped when the application shuts down."""

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            self.worker.close()
            await run_in_threadpool(self.worker.join, SECONDS_TO_STOP)

        routes = [
            *(Route(path, self.serve_file) for path in FILES),
            Route("/about.json", self.serve_model_description),
            Route("/explanation/{name}", self.serve_explanation),
            Route("/summarize", self.summarize, methods=["POST"]),
        ]
        app = Starlette(routes=routes, middleware=[Middleware(LocalOnlyMiddleware)], lifespan=lifespan)
        app.router.redirect_slashes = False
        return app

    async def serve_file(self, request: Request) -> Response:
        """Serve one of the files in :data:`FILES`."""
        content, kind = self.files[request.url.path]
        return Response(content, media_type=kind)

    async def serve_model_description(self, request: Request) -> Response:
        """Serve the description of the model and the fields of the form."""
        config = self.summarizer.config
        return JSONResponse(
            {
                "title": self.title,
                "about": describe_model(config, self.summarizer.picks_sentences),
                "max_bytes": MAX_BYTES,
                "options": form.describe_fields(config.decoding),
            }
        )

    async def serve_explanation(self, request: Request) -> Response:
        """Serve the page of a recent explanation.

        The page has its own security policy and cannot access this server.
        """
        explanation = self._explanations.get(request.path_params["name"])
        if explanation is None:
            return PlainTextResponse("This explanation is no longer stored: summarise the document again.", 404)
        page = await run_in_threadpool(explanation.to_html)
        policy = {"Content-Security-Policy": "sandbox allow-scripts; frame-ancestors 'self'"}
        return Response(page, media_type="text/html", headers=policy)

    def _store_explanation(self, explanation: Explanation) -> str:
        """Store a new explanation, and delete the oldest one if there are too many.

        Returns:
            The path of the explanation's page. It contains a random token, so nobody can guess it.
        """
        while len(self._explanations) >= MAX_EXPLANATIONS:
            self._explanations.pop(next(iter(self._explanations)))
        name = secrets.token_urlsafe(16)
        self._explanations[name] = explanation
        return f"/explanation/{name}"

    async def summarize(self, request: Request) -> Response:
        """Summarise a document. The response is a stream of events (see :mod:`fairseq_etads.demo.events`)."""
        try:
            text, options = _parse_request(await _read_body(request))
            form.check_options(options, self.summarizer.config.decoding)
            # This call raises an error if the model does not support the options. It runs in a separate thread, because
            # converting the weights takes a long time when a new --infer-dtype is used for the first time.
            await run_in_threadpool(self.summarizer.stream, [], **options)
            job, events = self._make_job(text, options)
            before = self.worker.submit(job)
        except BadRequestError as error:
            return PlainTextResponse(error.words, error.status)
        except InputError as error:
            return PlainTextResponse(escape_unprintable(str(error)), 400)  # it may quote a lone surrogate
        except QueueFullError:
            words = f"{MAX_WAITING} other summaries are waiting already: try again in a moment."
            return PlainTextResponse(words, 503, headers={"Retry-After": "2"})
        except ClientDisconnect:
            return Response(status_code=400)  # the client has disconnected and will not read the response
        return EventStream(job, _iterate_job_events(events, before))

    def _make_job(self, text: str, options: Dict[str, Any]) -> "Tuple[Job, asyncio.Queue[Optional[Dict[str, Any]]]]":
        """Create the job that summarises a document, and a queue of its events. The last item in the queue is None."""
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Optional[Dict[str, Any]]] = asyncio.Queue()

        def send_event(event: Optional[Dict[str, Any]]) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed if the server has shut down
                loop.call_soon_threadsafe(events.put_nowait, event)

        def run_summarizer(job: Job) -> None:
            try:
                stream_summary_events(self.summarizer, text, options, job.check, send_event, self._store_explanation)
            finally:
                send_event(None)

        return Job(run_summarizer), events


def describe_model(config: Any, extracts: bool) -> str:
    """Return a sentence that describes a model.

    Args:
        config: contents of config.json in the model folder.
        extracts: whether the model folder contains an extractor.
    """
    pointer = config.model.get("pointer", "none")
    copies = "" if pointer == "none" else "copies words from the document, and "
    reads = f"the first {config.task['truncate_source']:,} tokens"
    if extracts:
        reads = "the most probable sentences of documents of any length"
    return f"Architecture {config.architecture}: {copies}reads {reads}."


async def _iterate_job_events(
    events: "asyncio.Queue[Optional[Dict[str, Any]]]", before: int
) -> AsyncIterator[Dict[str, Any]]:
    yield {"kind": "waiting", "before": before}
    while True:
        event = await events.get()
        if event is None:
            return
        yield event


async def _read_body(request: Request) -> bytes:
    """Read the body of a request.

    Raises:
        BadRequestError: the body exceeds the maximum size.
    """
    body, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BYTES:
            body += part
        # Continue reading beyond the limit, because many clients read the response only after they have sent the whole
        # request.
        elif size > 10 * MAX_BYTES:
            break
    if size > MAX_BYTES:
        raise BadRequestError(413, f"That is too long: this page accepts up to {MAX_BYTES:,} bytes.")
    return bytes(body)


def _parse_request(body: bytes) -> Tuple[str, Dict[str, Any]]:
    """Parse the document and the decoding options in the body of a request.

    Raises:
        BadRequestError: the body of the request is invalid.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequestError(400, "That is not JSON.") from None
    if not isinstance(asked, dict) or set(asked) - {"text", "options"} or not isinstance(asked.get("text"), str):
        raise BadRequestError(400, 'Send {"text": "the document", "options": {"beam": 5}}; options may be left out.')
    options = asked.get("options", {})
    if not isinstance(options, dict):
        raise BadRequestError(400, 'options: send an object such as {"beam": 5}.')
    return asked["text"], options
