"""Entries of tests/unit/commands/test_every_option.py: a cheap run for each option of each command."""

import json
from typing import Dict, NamedTuple, Optional, Sequence, Union


class Entry(NamedTuple):
    """A run that uses an option.

    Attributes:
        base: words of the command without the option, but with its requirements.
        run: words to add, including the option.
        refused: part of the message, if the option is refused there.
        make: commands to run before.
    """

    base: str = ""
    run: Optional[str] = None
    refused: Optional[str] = None
    make: Sequence[str] = ()


ENTRIES: Dict[str, Dict[str, Entry]] = {}
"""Command -> option -> entry."""


def entries(base: str, make: Sequence[str] = (), **runs: str) -> Dict[str, Entry]:
    """Entries of a command.

    Args:
        runs: option, with underscores -> words to add to the base; "NEEDS :: WORDS" if the base needs more; "WORDS !!
            MESSAGE" if they are refused.
    """
    found = {}
    for name, words in runs.items():
        words, _, refused = words.partition(" !! ")
        needs, several, words = words.rpartition(" :: ")
        option = f"--{name.strip('_').replace('_', '-')}"
        whole = needs[1:] if needs.startswith("=") else f"{base} {needs}"
        found[option] = Entry(whole if several else base, words, refused or None, make)
    return found


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
SCORING = {
    "metrics": "--metrics 3",
    "no_stem": "--no-stem",
    "irregular": "--irregular yes",
    "sentence_mark": "--sentence-mark ' . '",
    "no_sentence_split": "--no-sentence-split",
    "backend": "--backend perl",
    "rouge_home": "--rouge-home in !! --rouge-home in has no effect",
    "bytes": "--bytes 6",
    "tokens": "--tokens characters",
    "jobs": "--jobs 0 !! --jobs 0",
}
FURTHER = {
    "also": "--saliency-documents in/documents !! --saliency-documents",
    "wordnet": "--wordnet in !! --wordnet",
    "bertscore_model": "--bertscore-model in !! --bertscore-model",
    "bertscore_layer": "--bertscore-layer 3 !! --bertscore-layer",
    "saliency_documents": "--saliency-documents in/documents !! --saliency-documents",
    "entail_model": "--entail-model in !! --entail-model",
}
ENTRIES["etads-rouge"] = entries(
    "in/system in/reference",
    source_column="=in/pair in/pair --show 1 --documents in/table.csv :: --source-column other",
    target_column="=in/table.csv in/table.csv --bootstrap 20 :: --target-column document",
    system="=in/reference in/reference2 --bootstrap 20 :: --system a=in/system --system b=in/system2",
    duc75="--duc75",
    **SCORING,
    multi="in/reference2 :: --multi average",
    bootstrap="--bootstrap 0",
    seed="--bootstrap 20 :: --seed 7",
    json="--json out.json",
    quiet="=in/leftovers in/reference :: --quiet",
    **{**FURTHER, "also": "--also rougesal --saliency-documents in/documents"},
    per_example="--per-example out.tsv",
    format="--format json",
    documents="--show 1 :: --documents in/documents",
    lead_words="--documents in/documents :: --lead-words 2",
    show="--show 1",
)
ENTRIES["etads-compare"] = {
    **entries(
        "in/system in/system2 in/reference --bootstrap 50",
        a="=in/reference --b in/system2 --bootstrap 50 --a in/system in/system2 :: --a in/system in/reference",
        b="=in/reference --a in/system in/system2 --bootstrap 50 --b in/system2 :: --b in/system2 in/system",
        target_column="=in/table.csv in/table.csv in/pair.csv --bootstrap 20 :: --target-column document",
        figure="--figure recall",
        families="--families in/families",
        likelihood="--likelihood !! --likelihood",
        subset="--subset valid !! --subset",
        checkpoint="--checkpoint last !! --checkpoint",
        prepared="--prepared in !! --prepared",
        **SCORING,
        multi="in/reference2 :: --multi average",
        bootstrap="--bootstrap 60",
        seed="--seed 7",
        json="--json out.json",
        quiet="=in/leftovers in/system2 in/reference --bootstrap 20 :: --quiet",
        **FURTHER,
    )
}
ENTRIES["etads-analyse"] = entries(
    "--source in/documents --reference in/reference --system a=in/system",
    source_column="=--source in/table.csv --reference in/pair --system a=in/pair :: --source-column other",
    target_column="=--source in/pair --reference in/table.csv --system a=in/pair.csv :: --target-column document",
    source="--source in/documents3",
    reference="--reference in/reference2",
    system="--system b=in/system2",
    lead="--lead 1",
    lead_words="--lead-words 3",
    oracle="--oracle 1",
    words="--words characters",
    format="--format latex",
    plot="--plot out.svg",
    **SCORING,
    multi="=--source in/documents --system a=in/system --reference in/reference in/reference2 :: --multi average",
    bootstrap="--bootstrap 30",
    seed="--bootstrap 30 :: --seed 7",
    json="--json out.json",
    quiet="--system b=in/leftovers :: --quiet",
)
ENTRIES["etads-correlate"] = entries(
    "in/rated.jsonl --bootstrap 5",
    ratings="--ratings other !! other",
    target_column="--target-column other !! --target-column other",
    figure="--figure recall",
    **{**SCORING, "metrics": "--metrics 1"},
    multi="--multi average",
    bootstrap="=in/rated.jsonl :: --bootstrap 7",
    seed="--seed 7",
    json="--json out.json",
    quiet="--quiet",
)
ENTRIES["etads-evidence"] = entries(
    "--source in/documents --system a=in/system",
    source_column="=--source in/table.csv --system a=in/pair :: --source-column other",
    source="--source in/documents3",
    system="--system b=in/system2",
    sentence_mark="--sentence-mark run",
    output="--output out.jsonl",
    page="--page out.html",
    page_documents="--page out.html :: --page-documents 1",
)
ENTRIES["etads-human make"] = entries(
    "--source in/documents --system a=in/system --system b=in/system2 --out sheets --key key.json --items 3",
    source="--source in/documents3",
    system="--system c=in/reference",
    sentence_mark="--sentence-mark ' . '",
    quiet="--system c=in/leftovers :: --quiet",
    items="--items 2",
    annotators="--annotators 2",
    each="--each 1",
    seed="--seed 7",
    out="--out others",
    key="--key other.json",
)
ENTRIES["etads-human score"] = entries(
    "in/sheet.csv --key in/key.json",
    key="--key in/key2.json",
    skip_malformed="=in/sheet2.csv --key in/key.json :: --skip-malformed",
    bootstrap="--bootstrap 20",
    seed="--seed 7",
    json="--json out.json",
)
BAD = "--train in/bad in/reference --valid in/documents2 in/reference2 --out text"
INVISIBLE = "--train in/invisible in/reference --valid in/documents2 in/reference2 --out text"
SEVERAL = "--train in/documents in/reference in/reference2 --valid in/documents2 in/reference2 --out text"
CORPUS = {
    "out": "--out other",
    "fallback_encoding": f"={BAD} :: --fallback-encoding cp1252",
    "skip_bad": f"={BAD} :: --skip-bad",
    "keep_empty": "--keep-empty",
    "sentences": "--sentences",
    "full_stops": "--full-stops",
    "language": "=--train in/german in/german --sentences --out text :: --language de",
    "sentence_mark": "--sentence-mark mat",
    "join_tokens": "--join-tokens",
    "strip_html": "--strip-html",
    "strip_invisible": f"={INVISIBLE} :: --strip-invisible",
    "source_sentences": "--sentences :: --source-sentences 1",
    "short_lead": "--sentences --source-sentences 1 :: --short-lead 40",
    "source_words": "--source-words 3",
    "train_references": f"={SEVERAL} :: --train-references all",
    "near_duplicates": "--near-duplicates",
    "jobs": "--jobs 0 !! --jobs 0",
}
TEXTS = "--train in/documents in/reference --valid in/documents2 in/reference2"
PARALLEL = "etads-corpus parallel"
ENTRIES[PARALLEL] = entries(
    f"{TEXTS} --out text",
    train="=--valid in/documents2 in/reference2 --out text :: --train in/documents in/reference",
    valid="=--train in/documents in/reference --out text :: --valid in/documents2 in/reference2",
    test="--test in/documents3 in/reference",
    input="=--out text :: --input in/many in/many-references",
    split="=--input in/many in/many-references --out text :: --split 50/25/25",
    split_seed="=--input in/many in/many-references --out text :: --split-seed 7",
    marked="--marked",
    **CORPUS,
)
ENTRIES[PARALLEL]["--force"] = Entry(
    f"{TEXTS} --out text", "--force", make=[f"etads-corpus parallel {TEXTS} --out text --source-words 2"]
)
ENTRIES["etads-corpus table"] = entries(
    "--train in/table.csv --out text",
    train="=--valid in/table.csv --out text :: --train in/table2.csv",
    valid="--valid in/table2.csv",
    test="--test in/table2.csv",
    input="=--out text :: --input in/many.csv",
    split="=--input in/many.csv --out text :: --split 50/25/25",
    split_seed="=--input in/many.csv --out text :: --split-seed 7",
    format="--format tsv",
    source_column="--source-column other",
    target_column="--target-column other",
    delimiter="--delimiter tab !! tab",
    no_quotes="--skip-bad :: --no-quotes",
    join_lines="=--train in/printed.jsonl --out text :: --join-lines",
    sentences="--no-sentences",
    target_list="=--train in/lists.jsonl --out text :: --target-list references",
)
ENTRIES["etads-control"] = entries(
    "in/text made --length-bins 2",
    length_bins="=in/text other --by-origin :: --length-bins 0",
    by_origin="=in/text other --length-bins 2 :: --by-origin",
    like="=in/text made2 :: --like made",
    subset="--subset train",
    length="=in/text made2 --like made --subset valid :: --length 1",
    origin="--origin cnn !! --origin",
    make=("etads-control in/text made --length-bins 2",),
)
TARGET = "--size 6 --target-size 3 --summaries in/reference --target-dictionary dict2.txt"
ENTRIES["etads-dictionary"] = entries(
    "dict.txt --train in/documents",
    train="=dict.txt --train in/documents :: --train in/documents2",
    documents="--documents in/documents3",
    size="--size 3",
    target_size=f"{TARGET} :: --target-size 2",
    summaries=f"{TARGET} :: --summaries in/system",
    target_dictionary=f"{TARGET} :: --target-dictionary dict3.txt",
    jobs="--jobs 0 !! --jobs 0",
)
INPUTS["text/train.source"] = INPUTS["documents"]
INPUTS["text/train.target"] = INPUTS["reference"]
INPUTS["text/valid.source"] = "the dog ran\n"
INPUTS["text/test.source"] = "The cat barked\n"
INPUTS["text/test.target"] = "it barked\n"
INPUTS["text/valid.target"] = "it ran\n"
INPUTS["documents2"] = "The old <b>town</b> was caf\u00e9 wet\u200b . <q> it rained\n\nagain a dog barked at night .\n"
INPUTS["documents3"] = "a dog barked at night . nobody heard the dog . it went away\nx y z\nthe cat sat on the mat\n"
INPUTS["reference2"] = "a cat on a mat\nthe dog barked\nrain fell over town\n"
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
    out="--out other",
    sample="=--out text :: --sample",
    force="=--translation in/Translation-en --packages in/Packages --valid-size 2 --test-size 2 --out text :: --force",
    lists="=--valid-size 2 --test-size 2 --out text --lists in :: --lists in/lists",
    translation="=--valid-size 2 --test-size 2 --out text :: --translation in/Translation-en",
    packages="=--translation in/Translation-en --valid-size 2 --test-size 2 --out text :: --packages in/Packages",
    train_size="--train-size 3",
    valid_size="--valid-size 3",
    test_size="--test-size 3",
    seed="--seed 7",
    max_per_group="--max-per-group 1",
    min_source_words="--min-source-words 9",
    max_source_words="--max-source-words 8",
    min_target_words="--min-target-words 4",
    max_target_words="--max-target-words 6",
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
    vocabulary="--vocabulary 100 !! --vocabulary 100",
    target_vocabulary="--target-vocabulary 100 !! --target-vocabulary 100",
    configs="= :: --configs made",
)
ENTRIES["etads-prepare"] = entries(
    "in/text made --tokens word",
    tokens="--tokens sentencepiece --size 40",
    words="--words ptb",
    size="--size 8",
    model="=in/text made --tokens bpe :: --model in/codes.bpe",
    gpt2_encoder_json="--gpt2-encoder-json in/none !! --gpt2-encoder-json",
    gpt2_vocab_bpe="--gpt2-vocab-bpe in/none !! --gpt2-vocab-bpe",
    dictionary="--dictionary in/none !! --dictionary",
    keep_case="--keep-case",
    language="--language de",
    source_sentence_marks="--source-sentence-marks",
    no_target_sentence_marks="--no-target-sentence-marks",
    separate_dictionaries="--separate-dictionaries",
    source_size="--separate-dictionaries :: --source-size 5",
    target_size="--target-size 5",
    factors="--factors tf",
    tf_bins="--factors tf :: --tf-bins 2",
    idf_bins="--factors idf :: --idf-bins 2",
    spacy_model="--spacy-model x !! --spacy-model",
    like="=in/text made2 --tokens word :: --like made",
    corpus="=in/text made :: --corpus gigaword",
    shard="--shard 1/2",
    jobs="--jobs 0 !! --jobs 0",
)
ENTRIES["etads-prepare"]["--like"] = Entry("in/text made2", "--like made", make=["etads-prepare in/text made --size 9"])
INPUTS["codes.bpe"] = "#version: 0.2\nt h\nth e</w>\n"
DECODING = {
    "beam": "--choose none --beam 5 :: --beam 1",
    "min_len": "--min-len 12",
    "max_len": "--max-len 3",
    "max_len_a": "--max-len 3 :: --max-len-a 0.2",
    "exact_length": "--exact-length 3",
    "min_sentences": "--min-sentences 2 !! --min-sentences 2: this model does not write sentence marks",
    "lenpen": "--lenpen 3",
    "length_penalty_type": "--length-penalty-type wu",
    "length_penalty_beta": "--length-penalty-type wu --lenpen 2 :: --length-penalty-beta 1",
    "unnormalized": "--unnormalized",
    "coverage_penalty": "--coverage-penalty 9",
    "coverage_penalty_type": "--coverage-penalty 9 :: --coverage-penalty-type wu",
    "stepwise_coverage_penalty": "--coverage-penalty 9 :: --stepwise-coverage-penalty",
    "no_repeat_ngram_size": "--min-len 12 --no-repeat-ngram-size 0 :: --no-repeat-ngram-size 1",
    "ngram_ignore_tokens": "--max-len 30 --min-len 20 --no-repeat-ngram-size 2 :: --ngram-ignore-tokens 'for the of a'",
    "extractive_weights": "--extractive-weights 1,1,1,1,1",
    "recombine": "--recombine 1",
    "early_stopping": "--lenpen 3 --early-stopping admissible :: --early-stopping fairseq",
    "temperature": "--temperature 3",
    "allow_unk": "--allow-unk --unkpen -30",
    "replace_unknown": "--allow-unk --unkpen -30 :: --replace-unknown",
    "unkpen": "--unkpen 5 !! --unkpen",
    "infer_dtype": "--infer-dtype int8",  # x86 processors without AVX-512 have no bfloat16
    "shortlist": "--shortlist !! shortlist",
    "choose": "--choose none",
    "choose_words": "--choose-words 5 !! --choose-words 5 has no effect without --choose content",
    "words": "--words 4 !! choose more than --words 4",
    "readability": "--readability 1 !! --readability",
    "percent": "--percent 20 !! choose more than --percent 20, 3 of 17 words",
    "must_include": "--must-include nowhere !! --must-include",
    "content_weight": "--content-weight 50",
}
PACKAGES = "=debian in/packages --lines --device cpu --quiet"
ENTRIES["etads-summarize"] = entries(
    "debian in/packages --lines --device cpu --output-format jsonl --quiet",
    input_format="=debian in/packages --device cpu --quiet :: --input-format lines",
    lines="=debian in/packages --device cpu --quiet :: --lines",
    source_column="=debian in/table2.csv --device cpu --quiet :: --source-column other",
    no_quotes="=debian in/quotes.tsv --source-column text --device cpu --quiet :: --no-quotes",
    join_lines="=lead in/printed.jsonl --quiet :: --join-lines",
    output="--output out.txt",
    output_format="=debian in/packages --lines --device cpu --quiet :: --output-format jsonl",
    evidence="--evidence",
    device="--device cuda:0 !! cuda",
    max_tokens="--max-tokens 0 !! --max-tokens 0",
    read_ahead="--read-ahead 0 !! --read-ahead 0",
    quiet="=debian in/packages --lines --device cpu :: --quiet",
    split="--split test !! --split test: FOLDER",
    checkpoint="--checkpoint last !! --checkpoint last: FOLDER",
    prepared="--prepared in !! --prepared in: FOLDER",
    content="--content in !! --content in: FOLDER",
    extractor="--extractor in !! --extractor in: FOLDER",
    shortlist_file="--shortlist-file in/none !! --shortlist-file in/none: FOLDER",
    selection="--selection in !! --selection in needs --split",
    shard="--output out.txt :: --shard 1/2",
    **DECODING,
)
INPUTS["packages"] = """\
Vim is an almost compatible version of the UNIX editor Vi. Many new features have been added.
This package contains the documentation of the library for reading and writing pictures in many formats.
A game of chess for two players, on a board in the terminal. It can also play against you.
"""
ENTRIES["etads-explain"] = {
    **entries(
        "debian in/packages --lines --document 1 --device cpu --quiet --output page.html",
        output="--output other.html",
        json="--json page.json",
        document="--document 2",
        summary="--summary 'a game for two'",
        input_format="=debian in/packages --device cpu --quiet --output page.html :: --input-format lines --document 2",
        lines="=debian in/packages --device cpu --quiet --output page.html :: --lines --document 2",
        device="--device cuda:0 !! cuda",
        quiet="=debian in/packages --lines --document 1 --device cpu --output page.html :: --quiet",
        source_column="=debian in/table2.csv --device cpu --quiet --output page.html :: --source-column other",
        no_quotes="=debian in/quotes.tsv --device cpu --quiet --output page.html :: --no-quotes",
    )
}
_PAIRS = [
    "a dog ran\ta dog\tentailment",
    "a cat sat\tno cat\tcontradiction",
    "it rained\tThe town 7 was wet, again\tneutral",
]
INPUTS["pairs.tsv"] = "\n".join(_PAIRS * 8) + "\n"
INPUTS["pairs2.tsv"] = "\n".join(_PAIRS[:2] * 8) + "\n"
INPUTS["vectors"] = "a 1 0 2 1\ndog 0 1 1 1\ncat 1 1 0 1\nhome 2 1 1 0\n"
ENTRIES["etads-nli synthesise"] = entries("in/news pairs", documents="--documents 12", seed="--seed 7")
_NEWS = "".join(f"the old {n * 'x'} town of the north had rain on day {n} and more\n" for n in range(24))
INPUTS["news/train.target"] = _NEWS
INPUTS["news/valid.target"] = _NEWS.replace("rain", "snow")
ENTRIES["etads-nli train"] = entries(
    "model --train in/pairs.tsv --valid in/pairs.tsv --embed-dim 4 --width 5 --epochs 2 --batch-size 8 --device cpu",
    train="--train in/pairs2.tsv",
    valid="--valid in/pairs2.tsv",
    vectors="--vectors in/vectors",
    more_words="--vectors in/vectors :: --more-words in/documents",
    size="--size 3",
    embed_dim="--embed-dim 6",
    width="--width 6",
    dropout="--dropout 0.5",
    lr="--lr 0.1",
    batch_size="--batch-size 4",
    epochs="--epochs 3",
    patience="--epochs 9 --lr 0.000001 :: --patience 1",
    seed="--seed 7",
    words="--words spaces",
    keep_case="--keep-case",
    hide_digits="--hide-digits",
    device="--device cuda:0 !! cuda",
)
ENTRIES["etads-nli score"] = entries(
    "model in/pairs.tsv --device cpu",
    out="--out scores.txt",
    device="--device cuda:0 !! cuda",
    make=[f"etads-nli train {ENTRIES['etads-nli train']['--train'].base}"],
)

ENTRIES["etads-content"] = {
    **entries(
        "in",
        documents="--documents 0 !! --documents 0: choose",
        prepared="--prepared in/none !! DATA in/none: no such folder",
    )
}
ENTRIES["etads-select"] = entries("in", max_tokens="--max-tokens 0 !! --max-tokens 0: choose")
ENTRIES["etads-tune"] = entries(
    "debian in/documents in/reference", starting_points="--starting-points 3 !! no effect without --mert"
)
NEEDED = {
    *(("etads-debian", option) for option in ("--sample", "--force", "--lists", "--translation")),
    *(("etads-corpus parallel", option) for option in ("--input", "--fallback-encoding", "--skip-bad", "--force")),
    ("etads-corpus table", "--input"),
    ("etads-human score", "--skip-malformed"),
}
"""Options without which the command is refused: what it would read is missing or damaged, or the output exists."""
