"""Names in docstrings, such as :func:`~module.function`, lead to code that exists; renaming code breaks them."""

import ast
import contextlib
import importlib
import re
from typing import Dict, Iterator, Set, Tuple

import pytest
from documented import ROOT

PACKAGES = {"fairseq_etads": "fairseq_etads", "preprocess": "etads_preprocess"}
"""Folders and the names under which they are installed."""
REFERENCE = re.compile(r":(?:func|class|meth|data|mod|attr|exc):`~?([\w.]+)`")


def modules() -> Iterator[Tuple[str, str, ast.Module]]:
    """Names of all modules, their packages, and their code."""
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            name = ".".join(part for part in parts if part != "__init__")
            parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
            yield name, parent, ast.parse(path.read_text(encoding="utf-8"))


def names_in(body, prefix: str, parent: str) -> Iterator[Tuple[str, str]]:
    """Full names of what a module or class defines, of attributes that methods set, and of imports with their origins.

    The origin of a definition is its own name.
    """
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield (f"{prefix}.{node.name}",) * 2
        if isinstance(node, ast.ClassDef):
            yield from names_in(node.body, f"{prefix}.{node.name}", parent)
        elif isinstance(node, ast.Import):
            yield from ((f"{prefix}.{alias.asname or alias.name}", alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = parent.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(part for part in (above, node.module) if part)
            yield from ((f"{prefix}.{alias.asname or alias.name}", f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, (ast.If, ast.Try)):
            yield from names_in(node.body, prefix, parent)
        elif isinstance(node, ast.FunctionDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    yield (f"{prefix}.{inner.attr}",) * 2
        else:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = [name for target in targets for name in getattr(target, "elts", [target])]
            yield from ((f"{prefix}.{name.id}",) * 2 for name in names if isinstance(name, ast.Name))


def references_in(node: ast.AST, owner: str) -> Iterator[Tuple[str, str]]:
    """The references in a module's texts, each with the full name of the module or class in which it stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield from ((owner, name) for name in REFERENCE.findall(child.value))
        yield from references_in(child, f"{owner}.{child.name}" if isinstance(child, ast.ClassDef) else owner)


@pytest.fixture(scope="module")
def known() -> Dict[str, str]:
    """All names of the packages, and where they come from."""
    found = {}
    for name, parent, tree in modules():
        found.update({name: name, **dict(names_in(tree.body, name, parent))})
    return found


def exists(name: str, known: Dict[str, str]) -> bool:
    """Whether code has this full name. It may be a member of something imported."""
    if known.get(name) == name:
        return True
    owner, _, member = name.rpartition(".")
    if name in known:
        return exists(known[name], known)
    if owner.split(".")[0] in PACKAGES.values():
        return known.get(owner, owner) != owner and exists(f"{known[owner]}.{member}", known)
    with contextlib.suppress(ImportError):
        return hasattr(importlib.import_module(owner), member) if owner else bool(importlib.import_module(name))
    return False


def is_known(reference: str, owner: str, parent: str, known: Dict[str, str]) -> bool:
    """Whether a name exists in the class or module, or, if it begins with a dot, in the package; or as a full name."""
    if reference.startswith("."):
        return exists(f"{parent}{reference}", known)
    scopes = [owner.rsplit(".", count)[0] for count in range(owner.count(".") + 1)]
    return any(exists(f"{scope}.{reference}", known) for scope in scopes) or exists(reference, known)


def test_every_reference_leads_to_code(known):
    broken: Dict[str, Set[str]] = {}
    count = 0
    for module, parent, tree in modules():
        for owner, reference in references_in(tree, module):
            count += 1
            if not is_known(reference, owner, parent, known):
                broken.setdefault(module, set()).add(reference)
    assert not broken, "\n".join(f"{module}: {names}" for module, names in broken.items())
    assert count > 400


def test_what_does_not_exist_is_noticed(known):
    module, parent = "fairseq_etads.search.hypotheses", "fairseq_etads.search"
    for good in (
        *("ActiveHypotheses", "FinishedHypotheses.add", "Tensor", "LENGTH_KINDS", ".settings.SearchSettings"),
        *("fairseq_etads.attention.focal_bias", "torch.nn.Linear", "ActiveHypotheses.used_up", "Extensions.words"),
    ):
        assert is_known(good, module, parent, known), good
    assert is_known("used_up", f"{module}.ActiveHypotheses", parent, known)
    for bad in (
        *("used_up", "SearchSettings", "FinishedHypotheses.sort", ".options.SearchSettings", "torch.nn.Lin"),
        *("fairseq_etads.search.penalties.length_penalty", "torch.no.Linear"),
    ):
        assert not is_known(bad, module, parent, known), bad


@pytest.mark.parametrize(
    "code,expected",
    [
        (
            "class A:\n    x: int = 1\n    def f(self):\n        self.y = 2",
            {name: name for name in ("p.m.A", "p.m.A.x", "p.m.A.f", "p.m.A.y")},
        ),
        (
            "import a.b as c\nif c:\n    from ..d import e\nfrom . import g\nX = Y, Z = 1, 2",
            {"p.m.c": "a.b", "p.m.e": "q.d.e", "p.m.g": "q.p.g", **{f"p.m.{x}": f"p.m.{x}" for x in "XYZ"}},
        ),
    ],
)
def test_names_of_a_module(code, expected):
    assert dict(names_in(ast.parse(code).body, "p.m", "q.p")) == expected


def test_references_know_their_class():
    code = '"""See :func:`f`."""\nclass A:\n    def g(self):\n        """See :meth:`~a.b` and\n        :attr:`.c`."""'
    assert [*references_in(ast.parse(code), "m")] == [("m", "f"), ("m.A", "a.b"), ("m.A", ".c")]
