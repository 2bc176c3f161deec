"""The command ``etads docs`` (help): print a page of the documentation."""

from dataclasses import dataclass
from pathlib import Path

from ..platform.command_options import argument, options_command

_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = next(filter(Path.is_dir, (_PACKAGE / "docs", _PACKAGE.parent / "docs")), _PACKAGE)
"""Folder of the pages. In a clone, it stands next to the package instead of in it."""


@dataclass
class DocsOptions:
    """Options of ``etads docs``."""

    page: str = argument(
        "PAGE", "name of the page", "index", nargs="?", choices=sorted(path.stem for path in FOLDER.glob("*.md"))
    )


@options_command(
    "etads docs",
    DocsOptions,
    description="Print a page of the documentation.",
    epilog="example:  etads docs using | less    (the page index lists the others)",
)
def main(args: DocsOptions) -> None:
    """Run the command ``etads docs``."""
    print((FOLDER / f"{args.page}.md").read_text(encoding="utf-8"), end="")
