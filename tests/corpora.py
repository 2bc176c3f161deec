"""Small corpora in the original formats of the real ones."""

import csv
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any, Dict, Sequence

TOPICS = ["audio", "video", "network", "font", "kernel", "mail", "game", "music"]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def article(number: int) -> str:
    topic = TOPICS[number % len(TOPICS)]
    return f"The {topic} library no. {number} doesn't play files. Dr. Smith, of the U.S. team, said: \"It's fast.\""


def plain(folder: Path) -> Path:
    """Six files of parallel text, without sentence marks."""
    for split, count in (("train", 60), ("valid", 8), ("test", 5)):
        sources = [f"The {TOPICS[i % 8]} library no. {i} doesn't play {TOPICS[i % 5]}-files." for i in range(count)]
        write(folder / f"{split}.source", "".join(line + "\n" for line in sources))
        write(folder / f"{split}.target", "".join(f"{TOPICS[i % 8]} library {i}\n" for i in range(count)))
    return folder


def cnndm(folder: Path, counts=(6, 2, 2), anonymised: bool = False, names: bool = False) -> Path:
    """cnn/stories, dailymail/stories and url_lists; the last training story has no text.

    With ``names``, each story and its two kinds of highlights are about a person with a unique name.
    """
    for name, count in zip(("train", "val", "test"), counts):
        urls = [f"http://web.archive.org/web/2015/{name}/{number}.html" for number in range(count)]
        write(folder / "url_lists" / f"all_{name}.txt", "".join(url + "\n" for url in urls))
        for number, url in enumerate(urls):
            stories = folder / ("cnn" if number % 2 else "dailymail") / "stories"
            text = f"(CNN) -- {article(number)}\n\nA caption without a full stop\n"
            who = f"Zeno{name}{number}"
            if names:
                text += f"\n{who} met {who} and {who}, {who}, {who}, {who}, {who} and {who}.\n" * 2
            if anonymised:
                text = text.replace("Dr. Smith", "@entity0") + "@entity0:Dr. Smith\n@entity10:Paris\n"
            if name == "train" and number == count - 1:
                text = ""
            highlights = [f"{TOPICS[number % 8]} library no. {number} is fast", "It plays nothing ."]
            if names:
                highlights = [f"{who} met {who}", f"{who} is {who}" + f" and {who}" * (number % 2)]
            text += "".join(f"\n@highlight\n\n{line}\n" for line in highlights)
            write(stories / f"{hashlib.sha1(url.encode()).hexdigest()}.story", text)
    return folder


def gigaword(folder: Path, sentences: int = 1) -> Path:
    """train/ compressed, valid/ filtered, Giga/ with the test set; articles of one or two sentences."""
    articles = [f"the {TOPICS[i % 4]} maker said on monday that {i} of its 120 shops will close ." for i in range(24)]
    if sentences == 2:
        articles = [f"{line} it blamed mr. smit{'h' * (i % 3)} ." for i, line in enumerate(articles)]
    titles = [f"{TOPICS[i % 4]} maker closes {i} shops" for i in range(24)]
    (folder / "train").mkdir(parents=True)
    for name, lines in (("article", articles), ("title", titles)):
        with gzip.open(folder / "train" / f"train.{name}.txt.gz", "wt", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        write(folder / "train" / f"valid.{name}.filter.txt", "".join(line + "\n" for line in lines[:3]))
    write(folder / "Giga" / "input.txt", "UNK of the network maker said no .\nthe font maker closes .\n")
    write(folder / "Giga" / "task1_ref0.txt", "network maker says no\nfont maker closes\n")
    return folder


def duc(folder: Path) -> Path:
    """docs/ and models/ as NIST ships them: two articles, four references each."""
    names = {"d30001t": "APW19981016.0240", "d30002t": "NYT19981017.0100"}
    for number, (group, name) in enumerate(names.items()):
        write(
            folder / "docs" / group / name,
            f"<DOC>\n<DOCNO> {name} </DOCNO>\n<HEADLINE>\nIgnored\n</HEADLINE>\n<TEXT>\n<P>\n"
            f"PARIS (AP) _ The network maker &AMP; others said &UR; {number + 3} shops\nwill close. It blamed costs.\n"
            "</P>\n<P>\nMore followed.\n</P>\n</TEXT>\n</DOC>\n",
        )
        for letter in "DABC":
            reference = f"Network maker closes {number + 3} shops, says {letter}\n"
            write(folder / "models" / f"{group[:-1].upper()}.P.10.T.{letter}.{name}", reference)
        write(folder / "models" / f"{group[:-1].upper()}.M.100.T.A", "Not of task 1\n")
    return folder


def duc_parallel(folder: Path) -> Path:
    write(folder / "input.txt", "the network maker closes # shops .\nthe font maker closes .\n")
    for number in range(4):
        write(folder / f"task1_ref{number}.txt", f"Maker closes, says {number}\nFont maker closes\n")
    return folder


def sumpubmed(folder: Path, articles: int = 5) -> Path:
    """line_text/ and abstract/; the last abstract is too short."""
    for number in range(1, articles + 1):
        sentence = f"the gene {TOPICS[number % 8]} is expressed in cells  <cit>  and tissues of mice in vivo ."
        write(folder / "line_text" / f"text_{number}.txt", "BACKGROUND\n" + f"{sentence}\n" * 40 + "RESULTS\nmore.\n")
        words = (
            "short." if number == articles else "the role of this gene is unknown. we asked e.g. what it does in mice."
        )
        text = f"BACKGROUND\n{words}\n\n\nRESULTS\nit does nothing.\n\n\nCONCLUSIONS\nnone.\n"
        write(folder / "abstract" / f"abstract_{number}.txt", text)
    return folder


def squad(folder: Path, version: str = "1.1") -> Path:
    """train and dev, with articles of one paragraph: two sentences with answers, and one without."""
    for name, topics in (("train", TOPICS[:6]), ("dev", TOPICS[6:])):
        articles = []
        for number, topic in enumerate(topics):
            context = (
                f"The {topic} was made by Dr. Ada Zeno\nin 18{number:02d}. No question. It weighs {number + 2} tons."
            )
            questions = [
                {"id": f"{topic}-{answer}", "question": "What?", "answers": [place(context, answer)]}
                for answer in ("Ada Zeno", f"18{number:02d}", f"{number + 2} tons")
            ]
            impossible = {"id": f"{topic}-none", "question": "Why?", "answers": [], "is_impossible": True}
            article = {"title": topic, "paragraphs": [{"context": context, "qas": [*questions, impossible]}]}
            articles.append(article)
        write(folder / f"{name}-v{version}.json", json.dumps({"version": version, "data": articles}))
    return folder


def place(context: str, answer: str) -> Dict[str, Any]:
    """An answer in SQuAD's format."""
    return {"text": answer, "answer_start": context.index(answer)}


def debian(path: Path, names: Sequence[str] = TOPICS) -> Path:
    """An index of packages that share no text; eight packages if no names are given."""
    stanzas = (
        f"Package: {topic}\nDescription-md5: {number}\nDescription-en: {topic} tool of Debian\n"
        f" The {topic} tool does what {topic} needs.\n .\n It has {number + 2} {topic} parts.\n"
        for number, topic in enumerate(names)
    )
    return write(path, "\n".join(stanzas))


def scitldr(folder: Path, counts=(4, 2, 2)) -> Path:
    for name, count in zip(("train", "dev", "test"), counts):
        records = [
            {
                "source": [f"We study {TOPICS[i % 8]} .", "It works."],
                "source_labels": [1, 0],
                "target": [f"{TOPICS[i % 8]} works."] + ["Another reference.", "A third."][: i % 3],
                "title": "x",
            }
            for i in range(count)
        ]
        write(folder / f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    return folder


def rows(count: int):
    return [{"article": article(i), "highlights": f"Library {i} is fast.\nIt plays."} for i in range(count)]


def table(path: Path, records) -> Path:
    """Write records (dicts of texts) in the format that the file's name implies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(records)), path)
    elif path.suffix == ".jsonl":
        write(path, "".join(json.dumps(record) + "\n" for record in records))
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            delimiter = "\t" if path.suffix == ".tsv" else ","
            writer = csv.DictWriter(file, list(records[0]), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(records)
    return path
