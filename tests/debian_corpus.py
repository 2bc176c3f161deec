"""Run etads-debian in this process, and read its output."""

from etads_preprocess import debian
from etads_preprocess.debian_splits import DescriptionPair

ROLES = ("source", "target", "package")


def run(out, *arguments):
    """Run the command; returns its exit status."""
    try:
        return debian.main(["--out", str(out), *map(str, arguments)])
    except SystemExit as stopped:  # --help, or an option that the parser refuses
        return stopped.code


def read(out):
    """Split -> pairs, from the files; a document is one paragraph."""
    splits = {}
    for split in debian.SPLITS:
        sides = [(out / f"{split}.{r}").read_text(encoding="utf-8").split("\n") for r in ROLES]
        assert len(sides[0]) == len(sides[1]) == len(sides[2])
        assert [side.pop() for side in sides] == ["", "", ""]
        splits[split] = [DescriptionPair(*p.split("\t"), (s,), t) for s, t, p in zip(*sides)]
    return splits
