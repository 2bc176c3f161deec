"""MkDocs hooks for the documentation site: pages from other folders, links between pages, and the API reference.

mkdocs.yml refers to this file twice: for the hooks, and for ``RoleConverter``, an extension of griffe, the
library that reads the docstrings.
"""

import json
import os
import re
import tempfile
from pathlib import Path

import griffe
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"fairseq_etads": ROOT / "fairseq_etads", "etads_preprocess": ROOT / "preprocess"}
"""Mapping from the name of each installed package to its folder."""
ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "preprocess/sample/README.md": "sample.md",
    "docs/notebook.ipynb": "notebook.md",
}
"""Mapping from files outside docs/ to their pages on the site."""

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_ROLE = re.compile(r":\w+:`~?\.*([\w.]+)`")
_SYMBOL = re.compile(r"(?<![`\w])<(/?\w+)>(?!`)")


@event_priority(100)  # this hook must run before mkdocstrings reads its paths
def on_config(config):
    """Create symbolic links, so that griffe finds both packages under their installed names."""
    folder = tempfile.TemporaryDirectory()
    config.extra["packages"] = folder  # the folder is deleted when the configuration is discarded
    for name, path in PACKAGES.items():
        os.symlink(path, Path(folder.name) / name)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [folder.name]
    return config


def on_files(files, config):
    """Add pages for the files outside docs/ and for the API reference."""
    for path, page in ELSEWHERE.items():
        content = (ROOT / path).read_text(encoding="utf-8")
        text = convert_notebook(json.loads(content)) if path.endswith(".ipynb") else content
        files.append(File.generated(config, page, content=convert_links(text, path)))
    for page, text in create_api_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, **_):
    """Convert links to files outside docs/ to links to the corresponding pages."""
    path = page.file.src_uri
    return markdown if page.file.generated_by else convert_links(markdown, f"docs/{path}")


def convert_links(text: str, path: str) -> str:
    """Convert links to files in the repository to links between pages of the site.

    Args:
        path: path of the page in the repository.
    """

    def make_site_link(match):
        if "://" in match[2]:
            return match[0]
        target = os.path.normpath(os.path.join(os.path.dirname(path), match[2])).replace(os.sep, "/")
        page = ELSEWHERE.get(target, target[len("docs/") :] if target.startswith("docs/") else None)
        # MkDocs warns about links to files that are not pages.
        return match[0] if page is None else match[1] + page + match[3]

    return _LINK.sub(make_site_link, text)


def convert_notebook(notebook: dict) -> str:
    """Convert a Jupyter notebook to Markdown, including its text, its code and the output of the code."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join("".join(output.get("text", [])) for output in cell["outputs"])
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def create_api_pages() -> dict:
    """Create a page for each folder of modules.

    Returns a mapping from pages to their text, into which mkdocstrings inserts the docstrings.
    """
    pages = {}
    for package, root in PACKAGES.items():
        for folder in [root, *sorted(path.parent for path in root.glob("*/**/__init__.py"))]:
            name = ".".join([package, *folder.relative_to(root).parts])
            modules = [name, *(f"{name}.{path.stem}" for path in sorted(folder.glob("[!_]*.py")))]
            title = f"# `{name}`\n\n"
            pages[f"api/{name}.md"] = title + "\n".join(f"::: {module}\n" for module in modules)
    return pages


class RoleConverter(griffe.Extension):
    """Converts Sphinx roles in docstrings (``:func:`rouge```) to MkDocs links."""

    def on_package(self, *, pkg, **_):
        """Convert the docstrings of a package after the package has been read."""
        self._convert_docstrings(pkg)

    def _convert_docstrings(self, obj):
        if obj.docstring:
            text = _ROLE.sub(lambda match: self._make_link(obj, match[1]), obj.docstring.value)
            obj.docstring.value = _SYMBOL.sub(r"`<\1>`", text)
        for member in obj.members.values():
            if not member.is_alias:
                self._convert_docstrings(member)

    @staticmethod
    def _make_link(obj, name):
        """Return a link to the object that ``name`` denotes in ``obj``.

        If the API reference does not contain this object, only its name is returned.
        """
        shown = f"`{name}`"
        try:
            target = obj.modules_collection[name if name.startswith(tuple(PACKAGES)) else obj.resolve(name)]
            while target.is_alias:
                target = target.final_target
        except Exception:  # the name belongs to another package or is relative to a package
            return shown
        return f"[{shown}][{target.path}]" if target.has_docstring and target.is_public else shown
