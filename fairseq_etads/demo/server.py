"""The Starlette application that serves the web page, its form fields, and summaries as streams of events.

An event is a JSON object with a "kind":

- ``waiting``: ``before`` is the number of summaries that will be generated before this one.
- ``document``: ``spans`` contains the character span [start, end] of each token that the model reads, or None for a
  token with an unknown position.
- ``step``: ``text``, ``score`` and ``ended`` describe the best summary found so far. ``attention`` and ``copying``
  contain the weights of the source tokens for the last word, as pairs [index of the token, weight]. They are None if
  the model does not return such weights.
- ``summary``: the result. It consists of ``text``, ``sentences``, ``score`` (None if it is not finite), the number of
  ``words`` in the document, the number of these words that the model read (``words_read``), the ``explanation``
  (:meth:`~fairseq_etads.summarizer.Explanation.to_dict`), and the path of the explanation's ``page``.
- ``problem``: ``words`` explains why there is no summary.

Positions are counted in code points, as in Python strings.

The server listens on the loopback interface, so other computers cannot reach it. However, other web pages in the user's
browser can reach it. Such a page can send requests to any address (cross-site request forgery), and it can resolve its
own host name to 127.0.0.1 (DNS rebinding). The headers Host and Origin reveal such requests, because the browser sets
them and the page cannot change them.
"""

import asyncio
import contextlib
import json
import math
import re
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, AsyncIterator, Dict, List, MutableMapping, Optional, Sequence, Tuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..platform.command_options import format_option_name
from ..platform.console import escape_unprintable, format_error
from ..platform.errors import InputError
from ..search.options import CALL, DECLARED, check_call, get_bounds, get_type, get_value
from ..summarizer import Explanation, PartialSummary, Summary
from ..summarizer.explanation import to_sparse_row

MAIN = ("sentences", "words", "percent", "must_include", "beam", "lenpen")
"""Options that are always shown on the page. All other options are shown after a click."""

MOST = {"beam": 50, "min_len": 1000, "max_len": 1000, "max_len_a": 10, "exact_length": 1000, "min_sentences": 100}
"""Maximum values, unless a folder's defaults are larger, so that a typing error does not exhaust the memory."""


def get_default_options(decoding: Dict[str, Any]) -> Dict[str, Any]:
    """Return the defaults in a model folder by the names of options, or None if they depend on the model."""
    values = {name: get_value(name, decoding) for name in CALL}
    return {name: " ".join(value) if isinstance(value, tuple) else value for name, value in values.items()}


def describe_fields(decoding: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return descriptions of the options for the page, in the order in which they are shown."""
    values = get_default_options(decoding)
    names = [*MAIN, *(name for name in CALL if name not in MAIN)]
    without_effect = {"shortlist"} - decoding.keys()
    if "choose" not in decoding:  # without a content model
        without_effect |= {"choose", "choose_words"}
    elif decoding["choose"] == "content":  # lengths of hypotheses, not of the sentences that are chosen
        without_effect |= {name for name in names if DECLARED[name].metadata.get("of_hypotheses")}
    elif decoding["choose"] == "extract":  # options of the search, because nothing is written
        without_effect |= {*names} - {*MAIN[:4], "choose", "choose_words", "readability"}
    found = []
    for name in [name for name in names if name not in without_effect]:
        metadata, bounds, type_ = DECLARED[name].metadata, get_bounds(name), get_type(name)
        kind = "choice" if "choices" in metadata else "str" if type_ == List[str] else type_.__name__
        found.append(
            {
                "name": name,
                "label": name.replace("_", " "),
                "kind": kind,
                "help": metadata.get("call_help", metadata["help"]),
                "choices": metadata.get("choices", ()),
                "least": None if bounds is None else bounds.at_least,
                "most": max(MOST[name], values[name] or 0) if name in MOST else None,
                "default": values[name],
                "main": name in MAIN,
            }
        )
    return found


def check_options(options: Dict[str, Any], decoding: Dict[str, Any]) -> None:
    """Raise InputError if an option does not exist, or its value is invalid or too large for the page."""
    check_call(decoding, options)
    values = get_default_options(decoding)
    for name in sorted(options.keys() & MOST.keys()):
        most = max(MOST[name], values[name] or 0)
        if options[name] > most:
            given = f"{format_option_name(name)} {options[name]}"
            raise InputError(f"{given}: choose at most {most} on this page; etads-summarize accepts more")


NAMES = ("127.0.0.1", "localhost")
"""Host names that are accepted in the Host header."""

HEADERS = {
    # The page may load files only from this server. Even if the script of the page contains a mistake, text cannot be
    # executed as a script or interpreted as markup.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(rf"({'|'.join(map(re.escape, NAMES))})(:[0-9]{{1,5}})?", re.IGNORECASE)


class LocalOnlyMiddleware:
    """ASGI middleware that rejects requests from pages of other servers and adds :data:`HEADERS` to responses.

    Headers that a response already contains are not replaced.
    """

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Pass a request to the application, or reject it."""
        if scope["type"] != "http":  # start-up and shut-down events of the server
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                message = {**message, "headers": headers.raw}
            await send(message)

        refusal = find_request_rejection(scope["method"], scope["headers"])
        app = self.app if refusal is None else PlainTextResponse(refusal[1], refusal[0])
        await app(scope, receive, send_with_headers)


def find_request_rejection(method: str, headers: List[Tuple[bytes, bytes]]) -> Optional[Tuple[int, str]]:
    """Return an HTTP status and a message if the request must be rejected, or None if it is accepted."""
    list_values = Headers(raw=headers).getlist
    hosts, origins, sites, kinds = map(list_values, ("host", "origin", "sec-fetch-site", "content-type"))
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return 403, f"This server answers to {' and '.join(NAMES)} only, not to {_format_header_values(hosts)}."
    if method in ("GET", "HEAD"):
        return None
    if any(origin.lower() != f"http://{hosts[0]}".lower() for origin in origins):
        return 403, f"This server answers to its own page only, not to {_format_header_values(origins)}."
    if any(site != "same-origin" for site in sites):
        return 403, "This server answers to its own page only, not to another site."
    if len(kinds) != 1 or kinds[0].split(";")[0].strip().lower() != "application/json":
        return 415, f"Send JSON (Content-Type: application/json), not {_format_header_values(kinds)}."
    return None


def _format_header_values(values: List[str]) -> str:
    return escape_unprintable(", ".join(values))[:100] or "a request without that header"


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
LEAST = 0.01
"""Threshold below which attention weights and copy probabilities are not sent to the page."""


class JobStoppedError(Exception):
    """Exception raised in the search if nobody waits for its summary any more."""


class Job:
    """A requested summary, which the worker thread generates while the event loop sends its events."""

    def __init__(self) -> None:
        self._loop, self._events = asyncio.get_running_loop(), asyncio.Queue[Optional[Dict[str, Any]]]()
        self.is_stopped = False
        self.future: Optional[Future[None]] = None

    def start(self, future: "Future[None]") -> None:
        self.future = future
        future.add_done_callback(lambda _: self._put(None))

    def stop(self) -> None:
        """End the search at its next event. A search that has not yet begun never begins."""
        self.is_stopped = True
        if self.future is not None:
            self.future.cancel()

    def tell(self, kind: str, **event: Any) -> None:
        """Send an event. Raises JobStoppedError if the job has been stopped."""
        if self.is_stopped:
            raise JobStoppedError
        self._put({"kind": kind, **event})

    def _put(self, event: Optional[Dict[str, Any]]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed if the server has shut down
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def encode_events(self, before: int) -> AsyncIterator[bytes]:
        """Yield all events as JSON lines; ``before`` is the number of jobs ahead of this one."""
        event: Optional[Dict[str, Any]] = {"kind": "waiting", "before": before}
        while event is not None:
            yield json.dumps(event, allow_nan=False).encode() + b"\n"
            event = await self._events.get()


class EventStream(StreamingResponse):
    """Response that streams the events of a job, which is stopped when the client disconnects."""

    def __init__(self, job: Job, before: int):
        super().__init__(job.encode_events(before), media_type="application/x-ndjson")
        self.job = job

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send all events, and stop the job afterwards."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.job.stop()


class DemoServer:
    """State of the server, and handlers for all routes. The page shows the model's ``title``.

    A single thread generates the summaries one after another, in the order of the requests. Several threads would start
    more OpenMP threads than there are cores.
    """

    def __init__(self, summarizer: Any, title: str):
        self.summarizer, self.title = summarizer, title
        self.jobs: List[Job] = []  # the job that is running, and those that wait for it
        self._is_closed = False
        self._executor = ThreadPoolExecutor(1, "etads-demo worker")
        self._explanations: Dict[str, Explanation] = {}
        self.files = {path: ((PAGE / name).read_bytes(), kind) for path, (name, kind) in FILES.items()}

    def make_app(self) -> Starlette:
        """Create the Starlette application, which ends all jobs when it shuts down."""

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            self.close()
            self._executor.shutdown(wait=False)

        routes = [
            *(Route(path, self.serve_file) for path in FILES),
            Route("/about.json", self.serve_model_description),
            Route("/explanation/{name}", self.serve_explanation),
            Route("/summarize", self.summarize, methods=["POST"]),
        ]
        app = Starlette(routes=routes, middleware=[Middleware(LocalOnlyMiddleware)], lifespan=lifespan)
        app.router.redirect_slashes = False
        return app

    def close(self) -> None:
        """Stop all jobs, and reject any further jobs. A signal handler can call this."""
        self._is_closed = True
        for job in self.jobs:
            job.stop()

    async def serve_file(self, request: Request) -> Response:
        """Serve one of the files in :data:`FILES`."""
        content, kind = self.files[request.url.path]
        return Response(content, media_type=kind)

    async def serve_model_description(self, request: Request) -> Response:
        """Serve the description of the model and the fields of the form."""
        config = self.summarizer.config
        copies = "" if config.model.get("pointer", "none") == "none" else "copies words from the document, and "
        architecture = f"Architecture {config.architecture}: {copies}"
        about = f"{architecture}reads the first {config.task['truncate_source']:,} tokens."
        if config.decoding.get("choose") == "extract":
            about = "An extractor chooses whole sentences of documents of any length."
        elif self.summarizer.picks_sentences:
            about = f"{architecture}reads the most probable sentences of documents of any length."
        return JSONResponse(
            {
                "title": self.title,
                "about": about,
                "max_bytes": MAX_BYTES,
                "options": describe_fields(config.decoding),
            }
        )

    async def serve_explanation(self, request: Request) -> Response:
        """Serve the page of a recent explanation. It has its own security policy and cannot access this server."""
        explanation = self._explanations.get(request.path_params["name"])
        if explanation is None:
            return PlainTextResponse("This explanation is no longer stored: summarise the document again.", 404)
        page = await run_in_threadpool(explanation.to_html)
        policy = {"Content-Security-Policy": "sandbox allow-scripts; frame-ancestors 'self'"}
        return Response(page, media_type="text/html", headers=policy)

    async def summarize(self, request: Request) -> Response:
        """Summarise a document. The response is a stream of events."""
        try:
            text, options = _parse_request(await _read_body(request))
            check_options(options, self.summarizer.config.decoding)
            # This call raises an error if the model does not support the options. It runs in a separate thread, because
            # converting the weights takes a long time when a new --infer-dtype is used for the first time.
            await run_in_threadpool(self.summarizer.stream, [], **options)
        except InputError as error:
            raise HTTPException(400, escape_unprintable(str(error))) from None  # it may quote a lone surrogate
        except ClientDisconnect:
            return Response(status_code=400)  # the client has disconnected and will not read the response
        self.jobs = [job for job in self.jobs if job.future is not None and not job.future.done()]
        before = len(self.jobs)
        if self._is_closed or before > MAX_WAITING:
            words = f"{MAX_WAITING} other summaries are waiting already: try again in a moment."
            raise HTTPException(503, words, {"Retry-After": "2"})
        job = Job()
        self.jobs.append(job)
        job.start(self._executor.submit(self._run_job, job, text, options))
        return EventStream(job, before)

    def _run_job(self, job: Job, text: str, options: Dict[str, Any]) -> None:
        """Summarise a text in the worker thread, and report the progress as events."""
        is_known = False

        def on_step(partial: PartialSummary) -> None:
            nonlocal is_known
            if not is_known:
                job.tell("document", spans=partial.spans)
            is_known = True
            job.tell(
                "step",
                text=partial.text,
                score=partial.score if math.isfinite(partial.score) else None,
                ended=partial.has_ended,
                attention=_to_sparse_weights(partial.attention),
                copying=_to_sparse_weights(partial.copying),
            )

        try:
            summary = self.summarizer.summarize(text, on_step=on_step, **options)
            explanation = summary.explain()
            while len(self._explanations) >= MAX_EXPLANATIONS:
                self._explanations.pop(next(iter(self._explanations)))
            name = secrets.token_urlsafe(16)  # so that nobody can guess the path of the page
            self._explanations[name] = explanation
            words, read = count_words_read_by_model(text, summary, explanation)
            job.tell(
                "summary",
                text=summary.text,
                sentences=summary.sentences,
                score=summary.score if math.isfinite(summary.score) else None,
                words=words,
                words_read=read,
                explanation=explanation.to_dict(),
                page=f"/explanation/{name}",
            )
        except JobStoppedError:
            pass
        except InputError as error:
            job.tell("problem", words=str(error))
        except Exception as error:  # continue: if memory ran out, for example, a shorter document may succeed
            job.tell("problem", words=f"Something went wrong ({type(error).__name__}): {format_error(error)}")


def _to_sparse_weights(weights: Optional[Sequence[float]]) -> Optional[List[Tuple[int, float]]]:
    return None if weights is None else to_sparse_row(weights, LEAST, digits=3)


def count_words_read_by_model(text: str, summary: Summary, explanation: Explanation) -> Tuple[int, int]:
    """Count the words in a document, separated by white space, and those that the model has read."""
    words = len(text.split())
    if summary.picked is not None:
        return words, min(sum(len(each.text.split()) for each in summary.picked.sentences), words)
    if not summary.truncation.left_out:
        return words, words
    end = max((token.end for token in explanation.source if token.end is not None), default=0)
    return words, len(text[:end].split())


async def _read_body(request: Request) -> bytes:
    """Read the body of a request, which has at most MAX_BYTES."""
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
        raise HTTPException(413, f"That is too long: this page accepts up to {MAX_BYTES:,} bytes.")
    return bytes(body)


def _parse_request(body: bytes) -> Tuple[str, Dict[str, Any]]:
    """Parse the document and the decoding options in the body of a request."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "That is not JSON.") from None
    if not isinstance(asked, dict) or set(asked) - {"text", "options"} or not isinstance(asked.get("text"), str):
        raise HTTPException(400, 'Send {"text": "the document", "options": {"beam": 5}}; options may be left out.')
    options = asked.get("options", {})
    if not isinstance(options, dict):
        raise HTTPException(400, 'options: send an object such as {"beam": 5}.')
    return asked["text"], options
