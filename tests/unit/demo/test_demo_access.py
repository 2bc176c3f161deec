"""Access control of etads-demo's server: names, origins, types, sizes, paths, and the page's policy."""

# ruff: noqa: F811  # fixtures are imported, and then arguments

import json
import re

import pytest
from demo_server import JSON, TEXT, URL, ask, client, demo, summarizer, told  # noqa: F401  # fixtures among them

from fairseq_etads.demo import server

pytestmark = pytest.mark.filterwarnings("ignore")  # from the client: newer versions of Starlette prefer another httpx

BAD_HOSTS = [
    *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "evil.example:8000", "127.0.0.2"),
    *("0.0.0.0", "localhost:8000@evil.example", "localhost:", "", "127.0.0.1:8000\tx"),
]
PAGES = sorted(server.FILES)


@pytest.mark.parametrize(
    "body, words",
    [
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b'{"text": ["w1"]}', "Send"),
        (b'{"text": "w1", "more": 1}', "Send"),
        (b'{"text": "w1", "options": [1]}', "options: send an object"),
        (b'{"text": "w1", "options": {"lenpen": NaN}}', "--lenpen nan"),
        (b'{"text": "w1", "options": {"\\ud800": 1}}', "\\ud800"),
        (b'{"text": "w1", "options": {"beam": 1' + b"0" * 400 + b"}}", "--beam 1000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_request_is_refused(client, body, words):
    answer = client.post("/summarize", content=body, headers=JSON)
    assert answer.status_code == 400 and words in answer.text and len(answer.text) < 500


@pytest.mark.parametrize("announced", [True, False])
def test_a_request_that_is_too_long_is_refused(client, announced):
    most = server.MAX_BYTES
    body = json.dumps({"text": "w" * (most - len('{"text": ""}'))}).encode()
    assert len(body) == most
    for content, status in ((body, 200), (body + b" ", 413), (b" " * 12 * most, 413)):
        sent = content if announced else (content[at : at + 2**16] for at in range(0, len(content), 2**16))
        assert client.post("/summarize", content=sent, headers=JSON).status_code == status


@pytest.mark.parametrize("path", [*PAGES, "/about.json", "/summarize"])
@pytest.mark.parametrize("host", BAD_HOSTS)
def test_other_names_of_this_computer_are_refused(client, path, host):
    """Another site can let its name point to 127.0.0.1, but the header Host still has that name."""
    method = "POST" if path == "/summarize" else "GET"
    answer = client.request(method, path, headers={"Host": host, **JSON}, content=b'{"text": "w1"}')
    assert answer.status_code == 403


def test_two_names_at_once_are_refused():
    good, evil = (b"host", b"localhost:8000"), (b"host", b"evil.example")
    assert server.find_request_rejection("GET", [good]) is None
    for headers in ([good, evil], [evil, good], [good, good], []):
        assert server.find_request_rejection("GET", headers)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "LOCALHOST", "localhost:1"])
def test_its_own_names_are_answered(client, host):
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert told(ask(client, headers=own))[-1]["kind"] == "summary"


@pytest.mark.parametrize("site", ["http://evil.example", "null", "", "https://127.0.0.1:8000", "http://127.0.0.1:8001"])
def test_other_pages_are_refused(client, site):
    assert ask(client, headers={"Origin": site}).status_code == 403
    assert ask(client, headers={"Sec-Fetch-Site": "same-site"}).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "", "text/plain; application/json"])
def test_only_json_is_taken(client, kind):
    """A form on another site can send other content types without a preflight request."""
    answer = client.post("/summarize", content=b'{"text": "w1"}', headers={"Content-Type": kind})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    "path",
    [
        *("/../setup.py", "/%2e%2e/%2e%2e/setup.py", "/page/demo.js", "/demo.js/", "/demo.js%00", "//etc/passwd"),
        *("/static/..%2f..%2fserver.py", "/server.py", "/explanation/", "/explanation/../about.json%00"),
    ],
)
def test_there_are_no_other_paths(client, path):
    assert client.get(f"{URL}{path}", follow_redirects=False).status_code == 404


def test_other_methods_are_refused(client):
    for method, path in (("GET", "/summarize"), ("DELETE", "/"), ("POST", "/about.json"), ("OPTIONS", "/summarize")):
        answer = client.request(method, path, headers=JSON)
        assert answer.status_code == 405
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_every_answer_forbids_what_the_page_does_not_need(client):
    answers = [client.get(path) for path in PAGES]
    answers += [client.get("/", headers={"Host": "evil"}), client.get("/missing"), ask(client), ask(client, beam=0)]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "http" not in policy
        assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


def test_the_pages_files_need_nothing_from_elsewhere_and_make_no_markup_of_text():
    for name, _ in server.FILES.values():
        text = (server.PAGE / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", text), name
        assert name.endswith(".js") or not re.search(r"<style|\son\w+=|style=|<script(?! src=)", text), name
    assert {path.name for path in server.PAGE.iterdir()} == {name for name, _ in server.FILES.values()}


def test_documents_are_not_logged(client, caplog, capfd):
    secret = "w1 confidential w2"
    ask(client, secret), ask(client, secret, beam=0), ask(client, secret, headers={"Origin": "null"})
    said = "".join(capfd.readouterr()) + "".join(record.getMessage() for record in caplog.records)
    assert "confidential" not in said


def test_explanations_have_a_page_without_access_to_the_server(client, summarizer, monkeypatch):
    monkeypatch.setattr(server, "MAX_EXPLANATIONS", 2)
    paths = [told(ask(client, text))[-1]["page"] for text in ("w1 w2", "w3 <b>w4</b>", TEXT)]
    assert len({*paths}) == 3 and all(len(path) > 30 for path in paths), "nobody can guess them"
    pages = [client.get(path) for path in paths]
    assert [page.status_code for page in pages] == [404, 200, 200]
    assert pages[2].text == summarizer.explain(TEXT).to_html()
    assert pages[1].headers["content-security-policy"] == "sandbox allow-scripts; frame-ancestors 'self'"
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'' in pages[1].text
    assert client.get(paths[2], headers={"Host": "evil.example"}).status_code == 403
