"""Recipes by name: their choices for data, machine and time, and options that override them."""

import json
import math
import shutil
from dataclasses import replace

import pytest
from fairseq import options

from fairseq_etads.commands import train
from fairseq_etads.data.labels import DEFAULT_WORDS, PICKING, SentencePickingSettings
from fairseq_etads.data.run_record import read_recipe
from fairseq_etads.pipeline import long_documents, training_settings
from fairseq_etads.pipeline.training_settings import SIZES, SUITABLE, Machine, TrainingDataSize, make_settings
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.lengths import TextLengths

HEADLINES = TrainingDataSize(12_000, TextLengths([28, 41, 58, 85, 121, 178]), TextLengths([4, 6, 7, 9, 11]))
ABSTRACTS = TrainingDataSize(26_000, TextLengths([200] * 9), TextLengths([50, 66, 85, 108, 128]))
NEWS = TrainingDataSize(287_000, TextLengths([300, 700, 1500]), TextLengths([30, 55, 90]))
CORE, CORES, GPU = Machine(1), Machine(2), Machine(16, 1)


def value_of(words, option):
    return words[len(words) - 1 - words[::-1].index(option) + 1]


def small(given=(), data=HEADLINES, machine=CORE, minutes=None):
    return make_settings("small", data, machine, "etads", given, minutes)


def test_the_default_suits_the_text_and_the_machine():
    for data, machine, arch, expected in (
        (HEADLINES, Machine(64), "etads", "small"),
        (ABSTRACTS, CORES, "etads", "base"),
        (HEADLINES, GPU, "etads", "base"),
        (NEWS, GPU, "etads", "large"),
        (NEWS, GPU, "pg_coverage", "paper"),
    ):
        assert training_settings.choose_recipe_name(data, machine, arch) == expected


def test_dropout_rises_with_the_epochs_and_the_vocabulary_with_the_summaries():
    few, some, more, many, most = map(training_settings.choose_dropout, (2.9, 3, 12, 20, 500))
    assert few == 0 < some < more <= many and most == 0.3
    texts = [replace(HEADLINES, pairs=200), HEADLINES, ABSTRACTS, NEWS, replace(NEWS, pairs=10**8)]
    sizes = [training_settings.choose_vocabulary_size(data) for data in texts]
    assert 900 <= sizes[1] <= 1100 and 7000 <= sizes[2] <= 9000 and sizes == sorted({*sizes, 500, 30_000})


@pytest.mark.parametrize("name", ["small", "base", "large"])
@pytest.mark.parametrize("arch", SUITABLE)
@pytest.mark.parametrize("given", [[], ["--optimizer", "adam", "--lr-scheduler", "inverse_sqrt", "--pointer", "none"]])
def test_fairseqs_parser_takes_what_is_chosen(name, arch, given):
    words = ["data", "--task", "summarization", "--criterion", "summarization_nll", "--arch", arch]
    chosen = make_settings(name, HEADLINES, CORE, arch, given).train
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=[*words, *chosen, *given])
    assert args.max_update > 0 and (given or float(args.total_num_update) == args.max_update)
    assert args.encoder_neighbours == 1 and args.embed_from_text and args.output_bias
    dropouts = (getattr(args, f"{kind}_dropout", 0) for kind in ("attention", "activation"))
    assert not any(dropouts), "fused attention is fast only without"
    assert str(args.pointer) == ("none" if given else "soft")


def test_steps_and_rate_follow_from_the_time():
    long, short = (make_settings("base", ABSTRACTS, CORE, "etads", (), minutes) for minutes in (60, 6))
    assert long.steps == pytest.approx(10 * short.steps, rel=0.01)
    for recipe in (long, short):
        for option in ("--max-update", "--total-num-update"):
            assert value_of(recipe.train, option) == str(recipe.steps)
        assert value_of(recipe.train, "--warmup-updates") == str(min(500, math.ceil(recipe.steps / 9)))
    assert short.epochs < 3 and value_of(short.train, "--dropout") == "0"
    assert make_settings("base", ABSTRACTS, CORES, "etads", (), 6).steps > 1.5 * short.steps
    much_time = small((), replace(HEADLINES, pairs=1000), Machine(64), 600)
    assert much_time.epochs == pytest.approx(6, rel=0.05) and much_time.minutes < 5, "not for ever"
    few, many = small(data=ABSTRACTS), small()
    assert few.epochs < 3 <= many.epochs
    for option, ratio in (("--max-tokens", 0.5), ("--lr", 2)):  # at first, more steps help more than large batches
        assert float(value_of(few.train, option)) == ratio * float(value_of(many.train, option))


@pytest.mark.parametrize(
    "given,gone",
    [
        (["--lr-scheduler", "inverse_sqrt"], ["--total-num-update"]),
        (["--optimizer", "lazy_adagrad"], ["--adam-betas"]),
        (["--criterion", "label_smoothed_cross_entropy"], ["--label-smoothing"]),
        (["--pointer", "none"], ["--pointer-continue"]),
        (["--focus-layers", "none"], ["--focus-center", "--focus-initial-scope"]),
        (["--adaptive-softmax-cutoff", "100"], ["--output-bias", "--output-bias-init"]),
        (["--encoder-embed-path", "v.txt"], ["--embed-from-text"]),
        (["--no-token-positional-embeddings"], ["--encoder-neighbours", "--decoder-neighbours"]),
    ],
)
def test_what_does_not_go_with_a_given_option_is_left_out(given, gone):
    without, usual = (small(words).train for words in (given, []))
    assert {*gone} <= {*usual} and not {*gone} & {*without}


def test_two_dictionaries_have_no_pointer_and_other_architectures_no_recipe():
    words = small(data=replace(HEADLINES, one_dictionary=False)).train
    assert value_of(words, "--pointer") == "none" and "--pointer-continue" not in words
    assert "--no-share-all-embeddings" in words
    with pytest.raises(InputError, match=r"--recipe small: .*choose --recipe paper for pg_coverage"):
        make_settings("small", HEADLINES, CORE, "pg_coverage")


def test_given_options_change_what_depends_on_them():
    by_max_update = small(["--max-update", "100"])
    assert by_max_update.steps == 100 and value_of(by_max_update.train, "--total-num-update") == "100"
    assert small(["--max-epoch", "2"]).epochs == pytest.approx(2, rel=0.02)
    wide = ["--encoder-embed-dim", "768", "--decoder-embed-dim=768"]
    slow, usual = (make_settings("base", ABSTRACTS, CORE, "etads", given, 30) for given in (wide, []))
    assert slow.steps < usual.steps / 2
    adam, muon = (float(value_of(small(given).train, "--lr")) for given in (["--optimizer", "adam"], []))
    assert adam < muon
    for given in ([], ["--fp16"], ["--bf16"], ["--fp16", "--optimizer", "adam"]):
        is_apart = "--fp16-no-flatten-grads" in small(given).train
        assert is_apart == (len(given) == 1), "fairseq would join all weights in a vector, so Muon would find no matrix"
    for heads, scope in (("2", "2,half"), ("1", "half")):
        assert value_of(small(["--encoder-attention-heads", heads]).train, "--focus-initial-scope") == scope


def test_the_batches_of_a_step_count_towards_epochs_and_time_and_each_worker_has_a_gpu():
    usual = make_settings("base", ABSTRACTS, CORES, "etads", [], 60)
    workers = ["--distributed-world-size", "2"]
    for given, batches in ((["--update-freq=1,4"], 4), (workers, 2), ([*workers, "--update-freq", "2"], 4)):
        more = make_settings("base", ABSTRACTS, CORES, "etads", given, 60)
        assert more.steps == pytest.approx(usual.steps / batches, rel=0.02)
        assert more.epochs == pytest.approx(usual.epochs, rel=0.02)
        assert more.minutes == pytest.approx(usual.minutes, rel=0.02)
        assert value_of(more.train, "--dropout") == value_of(usual.train, "--dropout")
    one, all_four = (make_settings("large", NEWS, Machine(16, gpus), "etads", [], 30) for gpus in (1, 4))
    assert all_four.steps == pytest.approx(one.steps, rel=0.02)
    assert all_four.epochs == pytest.approx(4 * one.epochs, rel=0.02)
    of_four = make_settings("large", NEWS, Machine(16, 4), "etads", ["--distributed-world-size", "1"], 30)
    assert (of_four.steps, of_four.minutes) == (one.steps, one.minutes)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The parts of prepared data of 400 pairs that the choice depends on, and a machine with two cores."""
    tokens = tmp_path / "prepared" / "tokens"
    tokens.mkdir(parents=True)
    (tmp_path / "prepared" / "bin").mkdir()
    (tmp_path / "prepared" / "bin" / "complete").touch()
    settings = {"settings": {"tokens": "word", "size": 700, "lowercase": True}}
    (tmp_path / "prepared" / "prepare.json").write_text(json.dumps(settings))
    for side, length in (("source", 20), ("target", 5)):
        lines = [" ".join(["w"] * (length + number % 3)) for number in range(400)]
        (tokens / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(training_settings, "detect_training_hardware", lambda cpu, processes=1: Machine(2))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *words, given=()):
    """Make a choice for etads-train; returns an exit status, the chosen words, and the messages."""
    stage, *words = words
    args = train.main.make_parser().parse_args(["--out", "run", "--prepared", "prepared", *words])
    args.given = list(given)
    choices = {"check": training_settings.check_minutes, "prepare": training_settings.choose_prepare_options}
    try:
        found = choices.get(stage, training_settings.choose_settings)(args)
    except InputError as error:
        return 2, [], str(error)
    if stage == "train" and found is not None:
        return 0, found.train, "\n".join(found.says)
    return 0, found or [], capsys.readouterr().err


def test_a_run_keeps_its_recipe_on_whatever_machine(folder, capsys, monkeypatch):
    status, first, said = run(capsys, "train", given=["--seed", "2"])
    assert status == 0 and "recipe small, chosen for 400 pairs" in said
    assert json.loads((folder / "run" / "recipe.json").read_text())["percentiles of tokens"]["summaries"]["50"] == 6
    assert read_recipe(folder / "run")["decoding"] == {"min_len": 5, "max_len": 10, "no_repeat_ngram_size": 2}
    monkeypatch.setattr(training_settings, "detect_training_hardware", lambda cpu, processes=1: GPU)
    assert run(capsys, "train", given=["--seed", "2"])[1] == first
    other = run(capsys, "train", given=["--max-update", "7"])[1]
    assert value_of(other, "--max-update") == "7" != value_of(first, "--max-update")
    named = run(capsys, "train", "--recipe", "base", "--minutes", "1")[1]
    assert run(capsys, "train")[1] == named != first, "the last one that was named"
    assert "recipe base" in run(capsys, "train", given=["--max-update", "3"])[2]
    assert value_of(run(capsys, "train", "--recipe", "small")[1], "--encoder-embed-dim") == "128"
    for content in ("", "[]", '{"recipe": "small"}', '{"decoding": []}'):
        (folder / "run" / "recipe.json").write_text(content)
        assert read_recipe(folder / "run") is None, "damaged"


def test_a_content_model_needs_pieces_that_can_be_joined(folder):
    for tokens, is_possible in (("word", True), ("gpt2", False)):
        settings = {"tokens": tokens, "lowercase": False, "target_marks": False}
        (folder / "prepared" / "prepare.json").write_text(json.dumps({"settings": settings}))
        assert training_settings.can_have_content_model(folder / "prepared") == is_possible


@pytest.mark.parametrize("name", ["training.json", "started.txt", "finished.txt"])
def test_a_training_that_was_begun_without_a_recipe_goes_on_so(name, folder, capsys):
    (folder / "run").mkdir()
    (folder / "run" / name).write_text("fairseq-train …")
    if name == "training.json":
        assert run(capsys, "train")[1], "a training that failed at once decides nothing"
        (folder / "run" / "recipe.json").unlink()
        (folder / "run" / "checkpoints").mkdir()
        (folder / "run" / "checkpoints" / "checkpoint_last.pt").touch()
    status, words, said = run(capsys, "train")
    assert (status, words) == (0, []) and "started without a recipe" in said
    assert run(capsys, "prepare", "--text", "nowhere")[1] == []
    assert run(capsys, "train", "--recipe", "small")[1]


def test_minutes_are_refused_where_paper_would_ignore_them(folder, capsys):
    assert run(capsys, "check", "--minutes", "2") == (0, [], "")
    (folder / "run").mkdir()
    (folder / "run" / "finished.txt").touch()
    for words in ([], ["--recipe", "paper"], ["--arch", "pg_coverage"]):
        status, _, said = run(capsys, "check", "--minutes", "2", *words)
        assert status == 2 and "--minutes 2 has no effect with --recipe paper" in said
        assert run(capsys, "check", *words) == (0, [], "")
        assert run(capsys, "train", *words)[1] == [], "paper chooses nothing"
    assert run(capsys, "check", "--minutes", "2", "--recipe", "small") == (0, [], "")


def test_text_is_prepared_as_words_and_the_second_time_as_the_first(folder, capsys):
    shutil.copytree(folder / "prepared" / "tokens", folder / "text")
    assert run(capsys, "prepare", "--text", "text")[1] == ["--tokens", "word", "--size", "700"]
    (folder / "prepared" / "prepare.json").unlink()
    assert run(capsys, "prepare", "--text", "text")[1] == ["--tokens", "word", "--size", "500"]
    assert run(capsys, "prepare", "--text", "text", "--size", "90")[1] == ["--tokens", "word"]
    for given in (["--tokens", "bpe"], ["--recipe", "large"]):
        assert run(capsys, "prepare", "--text", "text", *given)[1] == []


def test_lengths_are_of_texts_from_the_whole_file_which_must_not_be_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(training_settings, "SAMPLE", 10)
    for side in ("source", "target"):
        (tmp_path / f"train.{side}").write_text("".join("w " * (number // 100 + 1) + "\n" for number in range(300)))
    data = training_settings.measure_text_lengths(tmp_path)
    assert data.pairs == 300 and data.documents.get_percentile(0) == 1 and data.documents.get_percentile(100) == 3
    assert data.summaries.compute_mean() == pytest.approx(2, rel=0.1) and data.summaries.compute_mean(longest=1) == 1
    (tmp_path / "train.source").write_text("")
    with pytest.raises(InputError, match=r"train.source: it is empty"):
        training_settings.measure_text_lengths(tmp_path)
    (tmp_path / "train.target").unlink()
    with pytest.raises(InputError, match=r"train.target: no such file"):
        training_settings.measure_text_lengths(tmp_path)


def test_the_machine_is_what_a_training_may_use(monkeypatch):
    detect = training_settings.detect_training_hardware
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert detect(cpu=True) == Machine(1)
    monkeypatch.setattr(training_settings.metadata, "version", lambda name: "2.0+cu126")
    visible = {"0,1": 2, "": 0, "-1": 0, "NoDevFiles": 0, "1,-1,0": 1, "GPU-8932f937,MIG-4b": 2, " 3 , 2": 2}
    for names, gpus in visible.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)
        assert detect(cpu=False).gpus == gpus and detect(cpu=True).gpus == 0, names


# ---- documents longer than a model reads (etads-train --long)


def test_a_missing_file_too_few_pairs_and_documents_without_marks_are_refused(tmp_path):
    """The documents have seven words and a mark, which is none."""
    for split, lines in (("train", long_documents.FEWEST_PAIRS), ("valid", 3)):
        (tmp_path / f"{split}.source").write_text("One two three . <q> Four five .\n" * lines)
        (tmp_path / f"{split}.target").write_text("One five .\n" * lines)
    assert long_documents.measure_training_text_lengths(tmp_path).documents.get_percentile(50) == 7
    arguments = (tmp_path, "etads", 200, tmp_path / "extractor", True)
    assert long_documents.plan_shortening(*arguments) == 200
    for text, words in (
        ("One . Two .\n" * long_documents.FEWEST_PAIRS, r'no document in .* has "<q>" between its sentences'),
        ("One .\n" * (long_documents.FEWEST_PAIRS - 1), f"has {long_documents.FEWEST_PAIRS - 1} training pairs"),
    ):
        (tmp_path / "train.source").write_text(text)
        with pytest.raises(InputError, match=words):
            long_documents.plan_shortening(*arguments)
    (tmp_path / "valid.source").unlink()
    with pytest.raises(InputError, match=r"no valid.source in it"):
        long_documents.plan_shortening(*arguments)


def test_architectures_that_do_not_read_factors_are_refused():
    for arch in ("etads", "aggregation_transformer", "pg_coverage", "somebodys_own"):
        long_documents.check_architecture_reads_salience(arch)
    with pytest.raises(InputError, match="--arch abs has no --source-factors"):
        long_documents.check_architecture_reads_salience("abs")


@pytest.mark.parametrize("name", [*SIZES])
def test_picked_sentences_are_read_to_the_end_as_well_as_whole_documents(name):
    picked, whole = [180, 200, 210, 226], [300, 900]
    for lengths, factors, expected in ((picked, "salience", "230"), (whole, "pos,salience:16", "900")):
        data = replace(ABSTRACTS, documents=TextLengths(lengths))
        words = make_settings(name, data, CORE, "etads", ["--source-factors", factors]).train
        assert value_of(words, "--truncate-source") == expected


def test_the_number_of_words_is_the_one_of_an_extractor_that_is_there(tmp_path):
    choose = long_documents.choose_word_budget
    assert choose(None, tmp_path) == DEFAULT_WORDS and choose(90, tmp_path) == 90
    (tmp_path / PICKING).write_text(SentencePickingSettings(60, (0.1, 0.5)).to_json())
    assert choose(None, tmp_path) == choose(60, tmp_path) == 60
    with pytest.raises(InputError, match=r"--words 90: .* were shortened to 60 words"):
        choose(90, tmp_path)
    (tmp_path / PICKING).write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        choose(None, tmp_path)
