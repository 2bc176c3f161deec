"""Entries of tests/unit/commands/test_every_option.py: a cheap run for each option of each command."""

import json
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Union


class Entry(NamedTuple):
    """A run that uses an option."""

    base: str  # words of the command without the option, but with its requirements
    run: str  # words to add, including the option
    refused: Optional[str] = None  # part of the message, if the option is refused there
    make: Sequence[str] = ()  # commands to run before


ENTRIES: Dict[str, Dict[str, Entry]] = {}
"""Command -> option -> entry."""


def entries(base: str, table: str, make: Sequence[str] = ()) -> Dict[str, Entry]:
    """Entries of a command; each cell of the table has the words to add to the base, which begin with the option.

    "NEEDS :: WORDS" if the base needs more, "=BASE :: WORDS" for another base; "WORDS !! MESSAGE" if they are refused;
    "OPTION: WORDS" if they begin with another option. Later ones replace earlier ones.
    """
    found = {}
    for cell in cells(table):
        option, _, words = cell.rpartition(": ") if re.match("--[a-z-]+: ", cell) else ("", "", cell)
        words, _, refused = words.partition(" !! ")
        needs, several, words = words.rpartition(" :: ")
        whole = needs[1:] if needs.startswith("=") else f"{base} {needs}"
        option = option or words.split()[0]
        found[option] = Entry(whole if several else base, words, refused or None, make)
    return found


def cells(table: str) -> List[str]:
    """Cells of a table, which are separated by " | " or line ends."""
    return [cell.strip() for cell in re.split(r" \| |\n", table) if cell.strip()]


DOCUMENTS = """\
the cat sat on the mat . it was running home . the end came
a dog barked at night . nobody heard the dog . it went away
rain fell over the old town . children ran home . all were wet
"""
RATED = [
    {"references": references, "systems": dict(zip("abc", systems)), "human": {s: {"good": ord(s) % 3} for s in "abc"}}
    for references, systems in (
        (["the cats ran home .", "a cat runs"], ["a cat ran", "the <t> children ran .", "cats . home ."]),
        (["the child runs .", "children run"], ["a dog", "two children running .", "the child is home"]),
        (["it rained over the town", "rain in towns"], ["raining on a town .", "over . rain it", "cats"]),
    )
]
INPUTS: Dict[str, Union[str, bytes]] = {
    "documents": DOCUMENTS,
    "reference": "the cat runs home\na dogs barking . <q> nobody heard\nchildren ran\n",
    "reference2": "a cat on a mat\nthe dog barked\nrain fell over town\n",
    "system": "the cat was running home again\nthe dog barks . <q> it barks\nthe child ran home in rain\n",
    "system2": "a cat\nthe dog went away\nrain fell . children ran home\n",
    "families": "x\nx\ny\n",
    "german": "Er kam am 3. Mai. Sie rief bzw. sang.\n",
    "rated.jsonl": "".join(json.dumps(row) + "\n" for row in RATED),
    "printed.jsonl": json.dumps({"text": "A long-\nish text.\nIt ends.", "summary": "A text."}) + "\n",
    "invisible": DOCUMENTS.replace("cat", "c\u200dat"),
}
SCORING = """
    --metrics 3 | --no-stem | --irregular yes | --sentence-mark ' . ' | --no-sentence-split | --backend perl
    --rouge-home in !! --rouge-home in has no effect | --bytes 6 | --tokens characters | --jobs 0 !! --jobs 0
    """
FURTHER = """
    --also: --saliency-documents in/documents !! --saliency-documents | --wordnet in !! --wordnet
    --bertscore-model in !! --bertscore-model | --bertscore-layer 3 !! --bertscore-layer
    --saliency-documents in/documents !! --saliency-documents | --entail-model in !! --entail-model
    """
ENTRIES["etads-rouge"] = entries(
    "in/system in/reference",
    f"""{SCORING}{FURTHER}
    =in/pair in/pair --show 1 --documents in/table.csv :: --source-column other
    =in/table.csv in/table.csv --bootstrap 20 :: --target-column document
    =in/reference in/reference2 --bootstrap 20 :: --system a=in/system --system b=in/system2 | --duc75
    in/reference2 :: --multi average | --bootstrap 0 | --bootstrap 20 :: --seed 7 | --json out.json
    =in/leftovers in/reference :: --quiet | --per-example out.tsv | --format json
    --show 1 :: --documents in/documents | --documents in/documents :: --lead-words 2 | --show 1
    --also rougesal --saliency-documents in/documents
    """,
)
ENTRIES["etads-compare"] = entries(
    "in/system in/system2 in/reference --bootstrap 50",
    f"""{SCORING}{FURTHER}
    =in/reference --b in/system2 --bootstrap 50 --a in/system in/system2 :: --a in/system in/reference
    =in/reference --a in/system in/system2 --bootstrap 50 --b in/system2 :: --b in/system2 in/system
    =in/table.csv in/table.csv in/pair.csv --bootstrap 20 :: --target-column document | --figure recall
    --families in/families | --likelihood !! --likelihood | --subset valid !! --subset
    --checkpoint last !! --checkpoint | --prepared in !! --prepared | in/reference2 :: --multi average
    --bootstrap 60 | --seed 7 | --json out.json | =in/leftovers in/system2 in/reference --bootstrap 20 :: --quiet
    """,
)
ENTRIES["etads-analyse"] = entries(
    "--source in/documents --reference in/reference --system a=in/system",
    f"""{SCORING}
    =--source in/table.csv --reference in/pair --system a=in/pair :: --source-column other
    =--source in/pair --reference in/table.csv --system a=in/pair.csv :: --target-column document
    --source in/documents3 | --reference in/reference2 | --system b=in/system2 | --lead 1 | --lead-words 3
    --oracle 1 | --words characters | --format latex | --plot out.svg
    =--source in/documents --system a=in/system --reference in/reference in/reference2 :: --multi average
    --bootstrap 30 | --bootstrap 30 :: --seed 7 | --json out.json | --system b=in/leftovers :: --quiet
    """,
)
ENTRIES["etads-correlate"] = entries(
    "in/rated.jsonl --bootstrap 5",
    f"""{SCORING}
    --ratings other !! other | --target-column other !! --target-column other | --figure recall | --multi average
    =in/rated.jsonl :: --bootstrap 7 | --seed 7 | --json out.json | --quiet | --metrics 1
    """,
)
ENTRIES["etads-evidence"] = entries(
    "--source in/documents --system a=in/system",
    """
    =--source in/table.csv --system a=in/pair :: --source-column other | --source in/documents3
    --system b=in/system2 | --sentence-mark run | --output out.jsonl | --page out.html
    --page out.html :: --page-documents 1
    """,
)
ENTRIES["etads-human make"] = entries(
    "--source in/documents --system a=in/system --system b=in/system2 --out sheets --key key.json --items 3",
    """
    --source in/documents3 | --system c=in/reference | --sentence-mark ' . ' | --system c=in/leftovers :: --quiet
    --items 2 | --annotators 2 | --each 1 | --seed 7 | --out others | --key other.json
    """,
)
ENTRIES["etads-human score"] = entries(
    "in/sheet.csv --key in/key.json",
    """
    --key in/key2.json | =in/sheet2.csv --key in/key.json :: --skip-malformed | --bootstrap 20 | --seed 7
    --json out.json
    """,
)
BAD = "--train in/bad in/reference --valid in/documents2 in/reference2 --out text"
INVISIBLE = "--train in/invisible in/reference --valid in/documents2 in/reference2 --out text"
SEVERAL = "--train in/documents in/reference in/reference2 --valid in/documents2 in/reference2 --out text"
CORPUS = f"""
    --out other | ={BAD} :: --fallback-encoding cp1252 | ={BAD} :: --skip-bad | --keep-empty | --sentences
    --full-stops | =--train in/german in/german --sentences --out text :: --language de | --sentence-mark mat
    --join-tokens | --strip-html | ={INVISIBLE} :: --strip-invisible | --sentences :: --source-sentences 1
    --sentences --source-sentences 1 :: --short-lead 40 | --source-words 3 | ={SEVERAL} :: --train-references all
    --near-duplicates | --jobs 0 !! --jobs 0
    """
TEXTS = "--train in/documents in/reference --valid in/documents2 in/reference2"
PARALLEL = "etads-corpus parallel"
ENTRIES[PARALLEL] = entries(
    f"{TEXTS} --out text",
    f"""{CORPUS}
    =--valid in/documents2 in/reference2 --out text :: --train in/documents in/reference
    =--train in/documents in/reference --out text :: --valid in/documents2 in/reference2
    --test in/documents3 in/reference | =--out text :: --input in/many in/many-references
    =--input in/many in/many-references --out text :: --split 50/25/25
    =--input in/many in/many-references --out text :: --split-seed 7 | --marked
    """,
)
ENTRIES[PARALLEL]["--force"] = Entry(
    f"{TEXTS} --out text", "--force", make=[f"etads-corpus parallel {TEXTS} --out text --source-words 2"]
)
ENTRIES["etads-corpus table"] = entries(
    "--train in/table.csv --out text",
    """
    =--valid in/table.csv --out text :: --train in/table2.csv | --valid in/table2.csv | --test in/table2.csv
    =--out text :: --input in/many.csv | =--input in/many.csv --out text :: --split 50/25/25
    =--input in/many.csv --out text :: --split-seed 7 | --format tsv | --source-column other | --target-column other
    --delimiter tab !! tab | --skip-bad :: --no-quotes | =--train in/printed.jsonl --out text :: --join-lines
    --sentences: --no-sentences | =--train in/lists.jsonl --out text :: --target-list references
    """,
)
ENTRIES["etads-control"] = entries(
    "in/text made --length-bins 2",
    """
    =in/text other --by-origin :: --length-bins 0 | =in/text other --length-bins 2 :: --by-origin
    =in/text made2 :: --like made | --subset train | =in/text made2 --like made --subset valid :: --length 1
    --origin cnn !! --origin
    """,
    make=("etads-control in/text made --length-bins 2",),
)
TARGET = "--size 6 --target-size 3 --summaries in/reference --target-dictionary dict2.txt"
ENTRIES["etads-dictionary"] = entries(
    "dict.txt --train in/documents",
    f"""
    =dict.txt --train in/documents :: --train in/documents2 | --documents in/documents3 | --size 3
    {TARGET} :: --target-size 2 | {TARGET} :: --summaries in/system | {TARGET} :: --target-dictionary dict3.txt
    --jobs 0 !! --jobs 0
    """,
)
INPUTS["text/train.source"] = INPUTS["documents"]
INPUTS["text/train.target"] = INPUTS["reference"]
INPUTS["text/valid.source"] = "the dog ran\n"
INPUTS["text/test.source"] = "The cat barked\n"
INPUTS["text/test.target"] = "it barked\n"
INPUTS["text/valid.target"] = "it ran\n"
INPUTS["empty"] = ""
INPUTS["blank"] = "\n\n"
INPUTS["documents2"] = "The old <b>town</b> was caf\u00e9 wet\u200b . <q> it rained\n\nagain a dog barked at night .\n"
INPUTS["documents3"] = "a dog barked at night . nobody heard the dog . it went away\nx y z\nthe cat sat on the mat\n"
NUMBERS = range(200)
INPUTS["many"] = "".join(f"document number {n} of many\n" for n in NUMBERS)
INPUTS["many-references"] = "".join(f"number {n}\n" for n in NUMBERS)
INPUTS["many.csv"] = "document,summary\n" + "".join(f"document number {n} of many,number {n}\n" for n in NUMBERS)
INPUTS["table.csv"] = (
    'document,summary,other\n"a dog, barked . it ran away . all slept",the dog,x y\n"rain ""fell""",rain,y z\n'
)
INPUTS["pair.csv"] = "document,summary\nthe dogs ran,the dogs\nit rained,rain\n"
INPUTS["pair"] = "a dog y\nrain z\n"
INPUTS["quotes.tsv"] = 'text\tsummary\n"Vim is an editor"\ta\n'
INPUTS["table2.csv"] = "document,summary,other\nthe cat sat,the cat,x\n"
INPUTS["lists.jsonl"] = "".join(
    json.dumps({"document": f"the cat {n} sat", "summary": ["one cat", "two cats"]}) + "\n" for n in range(3)
)
INPUTS["leftovers"] = "the ca@@ t ran home\nthe -lrb- dog <unk> barks\nthe child@@ ren ran\n"
INPUTS["text/train.source.origin"] = "cnn\ndailymail\ncnn\n"
INPUTS["text/valid.source.origin"] = INPUTS["text/test.source.origin"] = "cnn\n"
_RUN = ("checkpoints/checkpoint_best.pt", "probabilities.sentences.test", "content.npz", "prepared/prepare.json")
_RUN += (
    "prepared/dict.txt",
    *(f"prepared/bin/{name}" for name in ("test.s-t.s.bin", "dict.s.txt", "labels.words.test")),
)
for _name in ("d.svg", "out.partial", "nli/config.json", "model/dict.txt", *(f"run/{name}" for name in _RUN)):
    INPUTS[_name] = "a 1\n"
INPUTS["model/SHA256SUMS"] = INPUTS["run/prepared/SHA256SUMS"] = f"{'0' * 64}  dict.txt\n"
_LETTERS = {"7": {"A": "a", "B": "b"}, "9": {"A": "b", "B": "a"}}
_KEY = {"format": 1, "id": "2601c9fb", "seed": 1, "systems": ["a", "b"], "scale": [1, 5], "sheets": {"x": _LETTERS}}
_KEY["criteria"] = ["salience", "fluency", "non-repetition"]
INPUTS["key.json"] = json.dumps(_KEY)
INPUTS["key2.json"] = json.dumps({**_KEY, "sheets": {"x": {"7": _LETTERS["9"], "9": _LETTERS["7"]}}})
_SHEET = "annotator,item,label,document,summary,salience,fluency,non-repetition\n"
_SHEET += "x 2601c9fb,7,A,d,s,5,4,3\nx 2601c9fb,7,B,,s,1,2,5\nx 2601c9fb,9,A,d,s,4,4,4\nx 2601c9fb,9,B,,s,5,2,1\n"
INPUTS["sheet.csv"] = _SHEET
INPUTS["sheet2.csv"] = _SHEET.replace("5,4,3", "9,4,3")
INPUTS["bad"] = b"the caf\xe9 was wet\na dog barked\nrain fell\n"

ENTRIES["etads-debian"] = entries(
    "--translation in/Translation-en --packages in/Packages --valid-size 2 --test-size 2 --out text",
    """
    --out other | =--out text :: --sample
    =--translation in/Translation-en --packages in/Packages --valid-size 2 --test-size 2 --out text :: --force
    =--valid-size 2 --test-size 2 --out text --lists in :: --lists in/lists
    =--valid-size 2 --test-size 2 --out text :: --translation in/Translation-en
    =--translation in/Translation-en --valid-size 2 --test-size 2 --out text :: --packages in/Packages
    --train-size 3 | --valid-size 3 | --test-size 3 | --seed 7 | --max-per-group 1 | --min-source-words 9
    --max-source-words 8 | --min-target-words 4 | --max-target-words 6
    """,
)
ENTRIES["etads-debian"]["--force"] = ENTRIES["etads-debian"]["--force"]._replace(
    make=["etads-debian --sample --out text"]
)
_PROGRAMS = []
for _number in range(24):
    _word = "".join(chr(ord("a") + int(digit)) * 3 for digit in str(100 + _number))
    _synopsis = f"viewer of {_word} maps" if _number % 2 else f"{_word} editor for the land of night"
    _PROGRAMS.append((_word, _synopsis, f"It {_word} shows {_word}s of {_word}ing." + " And more." * (_number % 3)))
_PROGRAMS += [(f"{_PROGRAMS[0][0]}-data", "other synopsis", _PROGRAMS[0][2]), ("short", "cuts", "Cuts it.")]
_STANZAS = [f"Package: {n}\nDescription-md5: {n}\nDescription-en: {s}\n {t}\n" for n, s, t in _PROGRAMS]
INPUTS["Translation-en"] = "\n".join(_STANZAS)
INPUTS["lists/x_i18n_Translation-en"] = "\n".join(_STANZAS[2:])
INPUTS["Packages"] = "\n".join(f"Package: {n}\nSource: all\n" for n, *_ in _PROGRAMS[:12])
ENTRIES["etads-models"] = entries(
    "etads",
    """
    --vocabulary 100 !! --vocabulary 100 | --target-vocabulary 100 !! --target-vocabulary 100 | = :: --configs made
    """,
)
ENTRIES["etads-prepare"] = entries(
    "in/text made --tokens word",
    """
    --tokens sentencepiece --size 40 | --words ptb | --size 8 | =in/text made --tokens bpe :: --model in/codes.bpe
    --gpt2-encoder-json in/none !! --gpt2-encoder-json | --gpt2-vocab-bpe in/none !! --gpt2-vocab-bpe
    --dictionary in/none !! --dictionary | --keep-case | --language de | --source-sentence-marks
    --no-target-sentence-marks | --separate-dictionaries | --separate-dictionaries :: --source-size 5
    --target-size 5 | --factors tf | --factors tf :: --tf-bins 2 | --factors idf :: --idf-bins 2
    --spacy-model x !! --spacy-model | =in/text made2 --tokens word :: --like made
    =in/text made :: --corpus gigaword | --shard 1/2 | --jobs 0 !! --jobs 0
    """,
)
ENTRIES["etads-prepare"]["--like"] = Entry("in/text made2", "--like made", make=["etads-prepare in/text made --size 9"])
INPUTS["codes.bpe"] = "#version: 0.2\nt h\nth e</w>\n"
ENTRIES["etads-summarize"] = entries(
    "debian in/packages --lines --device cpu --output-format jsonl --quiet",
    """
    --choose none --beam 5 :: --beam 1 | --max-len 3 | --extractive-weights 1,1,1,1,1 | --infer-dtype int8
    --shortlist !! shortlist | --choose none | --words 4 !! choose more than --words 4 | --content-weight 50
    =debian in/packages --device cpu --quiet :: --input-format lines
    =debian in/packages --device cpu --quiet :: --lines
    =debian in/table2.csv --device cpu --quiet :: --source-column other
    =debian in/quotes.tsv --source-column text --device cpu --quiet :: --no-quotes
    =lead in/printed.jsonl --quiet :: --join-lines | --output out.txt
    =debian in/packages --lines --device cpu --quiet :: --output-format jsonl | --evidence | --device cuda:0 !! cuda
    --max-tokens 0 !! --max-tokens 0 | --read-ahead 0 !! --read-ahead 0
    =debian in/packages --lines --device cpu :: --quiet | --split test !! --split test: FOLDER
    --checkpoint last !! --checkpoint last: FOLDER | --prepared in !! --prepared in: FOLDER
    --content in !! --content in: FOLDER | --extractor in !! --extractor in: FOLDER
    --shortlist-file in/none !! --shortlist-file in/none: FOLDER | --selection in !! --selection in needs --split
    --output out.txt :: --shard 1/2
    """,
)
INPUTS["packages"] = """\
Vim is an almost compatible version of the UNIX editor Vi. Many new features have been added.
This package contains the documentation of the library for reading and writing pictures in many formats.
A game of chess for two players, on a board in the terminal. It can also play against you.
"""
ENTRIES["etads-explain"] = entries(
    "debian in/packages --lines --document 1 --device cpu --quiet --output page.html",
    """
    --output other.html | --json page.json | --document 2 | --summary 'a game for two'
    =debian in/packages --device cpu --quiet --output page.html :: --input-format lines --document 2
    =debian in/packages --device cpu --quiet --output page.html :: --lines --document 2 | --device cuda:0 !! cuda
    =debian in/packages --lines --document 1 --device cpu --output page.html :: --quiet
    =debian in/table2.csv --device cpu --quiet --output page.html :: --source-column other
    =debian in/quotes.tsv --device cpu --quiet --output page.html :: --no-quotes
    """,
)
_PAIRS = [
    "a dog ran\ta dog\tentailment",
    "a cat sat\tno cat\tcontradiction",
    "it rained\tThe town 7 was wet, again\tneutral",
]
INPUTS["pairs.tsv"] = "\n".join(_PAIRS * 8) + "\n"
INPUTS["pairs2.tsv"] = "\n".join(_PAIRS[:2] * 8) + "\n"
INPUTS["vectors"] = "a 1 0 2 1\ndog 0 1 1 1\ncat 1 1 0 1\nhome 2 1 1 0\n"
ENTRIES["etads-nli synthesise"] = entries("in/news pairs", "--documents 12 | --seed 7")
_NEWS = "".join(f"the old {n * 'x'} town of the north had rain on day {n} and more\n" for n in range(24))
INPUTS["news/train.target"] = _NEWS
INPUTS["news/valid.target"] = _NEWS.replace("rain", "snow")
ENTRIES["etads-nli train"] = entries(
    "model --train in/pairs.tsv --valid in/pairs.tsv --embed-dim 4 --width 5 --epochs 2 --batch-size 8 --device cpu",
    """
    --train in/pairs2.tsv | --valid in/pairs2.tsv | --vectors in/vectors
    --vectors in/vectors :: --more-words in/documents | --size 3 | --embed-dim 6 | --width 6 | --dropout 0.5
    --lr 0.1 | --batch-size 4 | --epochs 3 | --epochs 9 --lr 0.000001 :: --patience 1 | --seed 7 | --words spaces
    --keep-case | --hide-digits | --device cuda:0 !! cuda
    """,
)
ENTRIES["etads-nli score"] = entries(
    "model in/pairs.tsv --device cpu",
    "--out scores.txt | --device cuda:0 !! cuda",
    make=[f"etads-nli train {ENTRIES['etads-nli train']['--train'].base}"],
)

ENTRIES["etads-content"] = entries(
    "in",
    "--documents 0 !! --documents 0: choose | --prepared in/none !! DATA in/none: no such folder",
)
ENTRIES["etads-labels"] = entries("in/none", "--jobs 0 !! --jobs 0 | --truncate-source 0 !! --truncate-source 0")
ENTRIES["etads-select"] = entries("in", "--max-tokens 0 !! --max-tokens 0: choose")
ENTRIES["etads-tune"] = entries(
    "debian in/documents in/reference",
    """
    --starting-points 3 !! no effect without --mert | --nbest 9 !! --nbest 9 | --trials 0 !! --trials 0
    --seed -1 !! --seed -1 | --max-tokens 0 !! --max-tokens 0 | --encoder-memory -1 !! --encoder-memory -1
    """,
)
NEEDED = {
    *(("etads-debian", option) for option in ("--sample", "--force", "--lists", "--translation")),
    *(("etads-corpus parallel", option) for option in ("--input", "--fallback-encoding", "--skip-bad", "--force")),
    ("etads-corpus table", "--input"),
    ("etads-human score", "--skip-malformed"),
}
"""Options without which the command is refused: what it would read is missing or damaged, or the output exists."""
REFUSALS: Dict[str, str] = {
    "etads-compare": """
        --likelihood a b c !! c is not needed | a b !! REF | ref --a x !! --a x needs --b: give both or neither
        ref --a x ./x --b y z !! --a x is given twice | a b ref --json . !! --json .: is a folder
    """,
    "etads-explain": """
        debian in/packages !! give --output PAGE, --json FILE, or both
        debian in/packages -o - --json - !! only one of them
        debian in/packages -o x --document all --summary w1 !! --summary w1 does not go with --document all
        debian in/packages --lines -o x --document 5 !! --document 5: no such id
        debian in/blank --lines -o x !! no document with words in it
        in/model in/documents --output in/model/dict.txt !! is also read
        debian in/bad --lines -o x !! in/bad, line 1: not UTF-8 | debian in/bad --document all -o x !! in/bad
    """,
    "etads-models": "etadz !! etadz",
    "etads-reproduce": """
        see2017_cnndm --rows nonesuch !! --rows nonesuch: choose one of: pointer_generator
        see2017_cnndm --steps 0 !! --steps 0: choose a whole number above 0
        see2017_cnndm --stages "50/15 100" !! is not DOCUMENT/SUMMARY
        see2017_cnndm !! --data is missing; this command makes it: etads corpus cnndm
        see2017_cnndm --data nowhere !! --data nowhere: no prepared data in it; etads corpus cnndm
        see2017 !! no such recipe; did you mean see2017_cnndm?
    """,
    "etads-rouge": """
        in/system in/reference in/pair !! in/system has 3 summaries, in/pair has 2 | in/empty in/reference !! in/empty
        in/bad in/reference !! in/bad, line 1: not UTF-8
        in/pair in/pair --also entail --entail-model in/nli --json in/nli/config.json !! is also read
        in/system in/reference --duc75 --bytes 80 !! --duc75 and --bytes 80
        in/system in/reference --irregular yes --no-stem !! --irregular yes has no effect with --no-stem
    """,
    "etads-summarize": """
        debian in --input-format lines !! FILE in: is a folder, but --input-format is lines
        debian in/packages --min-len 999 !! --min-len 999: choose at most --max-len
        debian --lines in/out.partial --output in/out !! is also read
        debian in/packages --output . !! --output . | debian in/packages --output a.jsonl.gz !! is written uncompressed
    """,
    "etads-extract": """
        in/run/prepared in/run/prepared/bin/test.s-t.s.bin --by lead !! is also read
        in/run/prepared in/run/prepared/bin/labels.words.test --by labels !! is also read
        in/run/prepared in/run/content.npz --by content --selection in/run !! is also read
    """,
    "etads-plot": "in/d.svg --out in/d.svg !! is also read",
    "etads-results": "in --claims none !! none: No such file",
    "etads-rewrite": """
        in/run/prepared in/run/checkpoints/checkpoint_best.pt --extractor in/run --abstractor in/run !! is also read
    """,
    "etads-select": "in/run --report in/run/checkpoints/checkpoint_best.pt !! is also read",
    "etads-shortlist": "in/run/prepared --out in/run/prepared/bin/dict.s.txt !! is also read",
    "etads-tune": "debian in/documents in/reference --quiet !! FOLDER debian comes with the package",
    "etads-train": """
        --out b !! --text is missing | --text nowhere --out b !! --text nowhere: no such file or folder
        --text in/text --out b --tokens letters !! letters
        --text in/text --out b --source-column body !! --source-column body: needs a table
        --text in/text --out b --target-column title --split 8/1/1 !! needs a table
        --text in/text --out b --minutes 5 --arch pointer_generator !! --minutes 5 has no effect with --recipe paper
        --text in/text --out b --words 5 !! --words 5 has no effect without --long
        --text in/text --out in/pair !! in/pair: File exists | --text in/text --out a:b !! --out a:b: contains a colon
        --text in/text --out b --recipe huge --no-content !! --recipe
        --text in/text --out b --size 0 !! --size 0 | --text in/text --out b --max-update 0 !! --max-update 0
        --prepared nowhere --out b !! --prepared nowhere: no prepared data there
        --prepared a --out b --keep-case --text-words ptb !! has no effect without --text
        --prepared a --out b --long !! --long needs --text
        --text in/text --out b -- --save-dir=c !! --save-dir after --: is decided by etads-train; give --out
    """,
}
"""Command -> table of words which are refused before any work, and a part of the message: WORDS !! MESSAGE."""
