"""The website of docs/ and the Dockerfile: a strict build, links, nothing from other servers; files and options
exist.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from documented import PAGES, ROOT

OTHERS = re.compile(r"(?:https?:)?//")
"""Beginnings of addresses on other servers."""


class _Page(HTMLParser):
    """Files that a page loads, and its links and anchors."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.anchors, self.references = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id"))
        if tag == "a":
            self.links.append(attributes.get("href") or "")
            if "autorefs" in (attributes.get("class") or ""):
                self.references.append(self.links[-1])
        elif tag != "link" or attributes.get("rel") not in ("canonical", "prev", "next"):
            self.loaded += [attributes[name] for name in ("src", "href", "srcset") if attributes.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site: file -> its page."""
    if sys.version_info < (3, 11):
        pytest.skip("the site is built on Python 3.11 or newer")
    out = tmp_path_factory.mktemp("site")
    result = build(ROOT, out)
    assert result.returncode == 0, result.stdout
    return {path.relative_to(out).as_posix(): _Page(path.read_text(encoding="utf-8")) for path in out.rglob("*.html")}


def test_every_page_and_module_is_in_it(site):
    assert {f"{page.stem}.html" for page in PAGES if page.name != "README.md"} <= set(site)
    assert {"contributing.html", "changelog.html", "sample.html", "notebook.html"} <= set(site)
    modules = [path for folder in ("fairseq_etads", "preprocess") for path in (ROOT / folder).rglob("[!_]*.py")]
    anchors = set().union(*(page.anchors for page in site.values()))
    for module in modules:
        name = ".".join(module.relative_to(ROOT).with_suffix("").parts).replace("preprocess.", "etads_preprocess.", 1)
        assert name in anchors, f"{name} is on no page of the reference"


def test_docstrings_link_to_what_they_name(site):
    assert "#fairseq_etads.kernels.focus.focus_attention" in site["api/fairseq_etads.kernels.html"].references, (
        "by focal_bias"
    )
    assert {"fairseq_etads.evaluation.rouge.rouge", "fairseq_etads.evaluation.rouge.RougeReport"} <= site[
        "api/fairseq_etads.evaluation.html"
    ].anchors


def test_pages_load_nothing_from_elsewhere(site):
    assert len(site) > 25
    for name, page in site.items():
        assert not [address for address in page.loaded if OTHERS.match(address)], name
        assert any(address.endswith(".css") for address in page.loaded)


def test_links_between_pages_lead_somewhere(site):
    """Links from Markdown, and links of the reference; MkDocs only checks some of them."""
    for name, page in site.items():
        for link in page.links if name != "404.html" else []:  # the links of 404.html begin at the server's root
            path, _, anchor = unquote(link).partition("#")
            if OTHERS.match(link) or link.startswith("mailto:") or path.endswith(".ipynb"):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            target = "index.html" if target == "." else target
            assert target in site, f"{name}: {link}"
            assert not anchor or anchor in site[target].anchors or anchor == "__codelineno", f"{name}: {link}"


def build(folder, out):
    """Run the docs.sh of a clone."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(folder / "scripts" / "docs.sh"), "--out", str(out)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize(
    "page,words",
    [
        ("[a page](nowhere.md)", "a link 'nowhere.md', but the target is not found"),
        ("[a part](index.md#nothing)", "there is no such anchor"),
        ("Fine.", 'not included in the "nav"'),
        ("[fine](other.md)", None),
    ],
)
def test_broken_links_and_unlisted_pages_are_errors(page, words, tmp_path):
    """In a small clone, with the relevant settings of the real one."""
    pytest.importorskip("mkdocs", reason="the site is built on Python 3.11 or newer")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    for name in ("docs.sh", "common.sh", "children.py"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = re.search(r"^validation:\n(?: .*\n)+", settings, re.MULTILINE)[0]
    nav = "nav: [index.md, other.md]" if words is None else "nav: [index.md]"
    theme = "theme: {name: null, custom_dir: docs}"
    (tmp_path / "mkdocs.yml").write_text(f"site_name: small\n{theme}\n{nav}\n{validation}")
    (tmp_path / "docs" / "main.html").write_text("{{ page.content }}")
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n{page}\n")
    if "Fine" in page or words is None:
        (tmp_path / "docs" / "other.md").write_text("# Other\n")
    result = build(tmp_path, tmp_path / "out")
    assert (result.returncode == 0) == (words is None), result.stdout
    assert words is None or words in result.stdout


def test_the_theme_takes_no_font_from_a_server():
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:", lambda *_: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    assert config["theme"]["name"] == "material" and config["theme"]["font"] is False
    assert not OTHERS.search(json.dumps([config.get("extra_javascript"), config.get("extra_css")]))


def test_the_readme_is_one_screen_with_one_picture():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60 and text.count("![") == 1
    assert "\nscripts/test.sh " in text and "scripts/quickstart.sh" in text, "what newcomers and CI call"


def test_installed_commands_are_on_the_path_before_they_are_called():
    """After the quickstart, README once called a command that the shell did not find."""
    for page in ("README.md", "docs/install.md", "docs/tutorial.md"):
        code = "\n".join(re.findall(r"^```\w*\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S))
        called = re.search(r"(?:^|[|&] )etads[ -]", code, re.M)
        activated = code.find("source .venv/bin/activate")
        assert activated > -1 and (called is None or activated < called.start()), page


def dockerfile():
    """The instruction and arguments of each line, with continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile_copies_what_its_scripts_need():
    """Building the image needs a Docker engine; this checks for errors that can be found without one."""
    instructions = dockerfile()
    assert instructions[0][0] == "FROM" and re.search(r":3\.(9|1[0-3])-", instructions[0][1]), "a Python that is tested"
    assert {name for name, _ in instructions} <= {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "ENV", "CMD"}
    copied = [path for name, rest in instructions if name == "COPY" for path in rest.split()[:-1]]
    assert all((ROOT / path).exists() for path in copied)
    script = (ROOT / "scripts" / "install.sh").read_text(encoding="utf-8")
    packed = re.findall(r"\bsources\+?=\((.*?)\)", script)
    assert len(packed) == 3
    needed = {*(path.split("/")[0] for paths in packed for path in paths.split()), "constraints.txt", "scripts"}
    assert needed <= set(copied), "install.sh would fail"
    first_script = next(i for i, (name, rest) in enumerate(instructions) if name == "RUN" and "scripts/" in rest)
    assert all(name != "COPY" for name, _ in instructions[first_script:])
    assert any(name == "RUN" and "apt-get install" in rest and "g++" in rest for name, rest in instructions)


def test_the_dockerfile_calls_scripts_with_options_that_they_have():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    calls = re.findall(r"(scripts/\w+\.sh)((?: --[a-z-]+(?: /[\w/]+)?)*)", text)
    assert {script for script, _ in calls} == {"scripts/install.sh", "scripts/quickstart.sh"}
    for script, options in calls:
        assert os.access(ROOT / script, os.X_OK)
        known = (ROOT / script).read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z-]+", options):
            assert re.search(rf"(?:^|\| ?)\s*{option}(?: \||\))", known, re.MULTILINE), f"{script} {option}"
    assert "--cpu" in text, "an image with CUDA would be 5 GB larger"
