"""Recipes by name: their choices for data, machine and time, and options that override them."""

import json
import shutil

import pytest
from fairseq import options

from fairseq_etads.jobs import recipe_choice
from fairseq_etads.jobs.recipe_choice import detect_training_hardware, main, measure_text_lengths, read_decoding_options
from fairseq_etads.jobs.recipes import (
    NAMES,
    SUITABLE,
    Machine,
    TrainingDataSize,
    choose_dropout,
    choose_recipe_name,
    choose_vocabulary_size,
    choose_warm_up_steps,
    make_recipe,
)
from fairseq_etads.models.transformer_options import PRESETS
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.lengths import TextLengths

HEADLINES = TrainingDataSize(12_000, TextLengths([28, 41, 58, 85, 121, 178]), TextLengths([4, 6, 7, 9, 11]))
ABSTRACTS = TrainingDataSize(26_000, TextLengths([200] * 9), TextLengths([50, 66, 85, 108, 128]))
NEWS = TrainingDataSize(287_000, TextLengths([300, 700, 1500]), TextLengths([30, 55, 90]))
CORE, CORES, GPU = Machine(1), Machine(2), Machine(16, 1)


def value_of(words, option):
    return words[len(words) - 1 - words[::-1].index(option) + 1]


def test_recipes_are_for_the_transformers_that_are_trained_from_nothing():
    assert {*SUITABLE} == {name for name in PRESETS if "bart" not in name}


@pytest.mark.parametrize(
    "data,machine,arch,expected",
    [
        (HEADLINES, CORE, "etads", "small"),
        (HEADLINES, Machine(64), "etads", "small"),
        (ABSTRACTS, CORES, "etads", "base"),
        (NEWS, CORES, "etads", "base"),
        (HEADLINES, GPU, "etads", "base"),
        (NEWS, GPU, "etads", "large"),
        (NEWS, GPU, "pg_coverage", "paper"),
        (HEADLINES, CORE, "etads_bart_base", "paper"),
    ],
)
def test_the_default_suits_the_text_and_the_machine(data, machine, arch, expected):
    assert choose_recipe_name(data, machine, arch) == expected


def test_dropout_rises_with_the_epochs():
    assert choose_dropout(0.5) == choose_dropout(2.9) == 0
    assert (
        0.1
        <= choose_dropout(3)
        < choose_dropout(6)
        < choose_dropout(12)
        <= choose_dropout(20)
        == choose_dropout(500)
        == 0.3
    )


def test_the_vocabulary_grows_with_the_summaries():
    sizes = [
        choose_vocabulary_size(data) for data in (TrainingDataSize(200, *two(HEADLINES)), HEADLINES, ABSTRACTS, NEWS)
    ]
    assert sizes[0] == 500 and 900 <= sizes[1] <= 1100 and 7000 <= sizes[2] <= 9000 and sizes == sorted(set(sizes))
    assert choose_vocabulary_size(TrainingDataSize(10**8, *two(NEWS))) == 30_000


def two(data):
    return data.documents, data.summaries


@pytest.mark.parametrize("name", ["small", "base", "large"])
@pytest.mark.parametrize("arch", SUITABLE)
@pytest.mark.parametrize("given", [[], ["--optimizer", "adam", "--lr-scheduler", "inverse_sqrt", "--pointer", "none"]])
def test_fairseqs_parser_takes_what_is_chosen(name, arch, given):
    words = ["data", "--task", "summarization", "--criterion", "summarization_nll", "--arch", arch]
    chosen = make_recipe(name, HEADLINES, CORE, arch, given).train
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=[*words, *chosen, *given])
    assert args.max_update > 0 and (given or float(args.total_num_update) == args.max_update)
    assert args.encoder_neighbours == 1 and args.embed_from_text and args.output_bias
    assert str(args.pointer) == ("none" if given else "soft")


def test_steps_and_rate_follow_from_the_time():
    long, short = (make_recipe("base", ABSTRACTS, CORE, "etads", (), minutes) for minutes in (60, 6))
    assert long.steps == pytest.approx(10 * short.steps, rel=0.01)
    for recipe in (long, short):
        assert (
            value_of(recipe.train, "--max-update") == value_of(recipe.train, "--total-num-update") == str(recipe.steps)
        )
        assert value_of(recipe.train, "--warmup-updates") == str(choose_warm_up_steps(recipe.steps))
    assert short.epochs < 3 and value_of(short.train, "--dropout") == "0"
    assert make_recipe("base", ABSTRACTS, CORES, "etads", (), 6).steps > 1.5 * short.steps


def test_the_rate_is_halved_where_texts_are_read_often():
    rates = [
        float(value_of(make_recipe("small", data, CORE, "etads").train, "--lr")) for data in (ABSTRACTS, HEADLINES)
    ]
    assert rates == [6e-3, 3e-3]


def test_a_small_text_is_not_read_for_ever():
    recipe = make_recipe("small", TrainingDataSize(1000, *two(HEADLINES)), Machine(64), "etads", (), 600)
    assert recipe.epochs == pytest.approx(6, rel=0.05) and recipe.minutes < 5


def test_smaller_batches_where_the_time_is_short_of_three_epochs():
    """At first, more steps in the same time help more than large batches."""
    few, many = make_recipe("small", ABSTRACTS, CORE, "etads"), make_recipe("small", HEADLINES, CORE, "etads")
    assert few.epochs < 3 <= many.epochs
    assert int(value_of(few.train, "--max-tokens")) == int(value_of(many.train, "--max-tokens")) // 2


@pytest.mark.parametrize(
    "given,gone",
    [
        (["--lr-scheduler", "inverse_sqrt"], ["--total-num-update"]),
        (["--optimizer", "lazy_adagrad"], ["--adam-betas"]),
        (["--criterion", "label_smoothed_cross_entropy"], ["--label-smoothing"]),
        (["--pointer", "none"], ["--pointer-continue"]),
        (["--focus-layers", "none"], ["--focus-center", "--focus-initial-scope"]),
        (["--no-output-bias"], ["--output-bias", "--output-bias-init"]),
        (["--adaptive-softmax-cutoff", "100"], ["--output-bias"]),
        (["--encoder-embed-path", "v.txt"], ["--embed-from-text"]),
        (["--no-token-positional-embeddings"], ["--encoder-neighbours", "--decoder-neighbours"]),
    ],
)
def test_what_does_not_go_with_a_given_option_is_left_out(given, gone):
    without, usual = (make_recipe("small", HEADLINES, CORE, "etads", words).train for words in (given, []))
    for option in gone:
        assert option in usual and option not in without
    assert len(without) < len(usual)


def test_given_options_change_what_depends_on_them():
    by_max_update = make_recipe("small", HEADLINES, CORE, "etads", ["--max-update", "100"])
    assert by_max_update.steps == 100 and value_of(by_max_update.train, "--total-num-update") == "100"
    by_epochs = make_recipe("small", HEADLINES, CORE, "etads", ["--max-epoch", "2"])
    assert by_epochs.epochs == pytest.approx(2, rel=0.02)
    wide = make_recipe("base", ABSTRACTS, CORE, "etads", ["--encoder-embed-dim", "768", "--decoder-embed-dim=768"], 30)
    assert wide.steps < make_recipe("base", ABSTRACTS, CORE, "etads", [], 30).steps / 2
    adam = make_recipe("small", HEADLINES, CORE, "etads", ["--optimizer", "adam"])
    assert float(value_of(adam.train, "--lr")) < float(
        value_of(make_recipe("small", HEADLINES, CORE, "etads").train, "--lr")
    )
    two_heads = make_recipe("small", HEADLINES, CORE, "etads", ["--encoder-attention-heads", "2"])
    assert value_of(two_heads.train, "--focus-initial-scope") == "2,half"
    one_head = make_recipe("small", HEADLINES, CORE, "etads", ["--encoder-attention-heads", "1"])
    assert value_of(one_head.train, "--focus-initial-scope") == "half"


@pytest.mark.parametrize(
    "given,batches",
    [
        (["--update-freq", "4"], 4),
        (["--update-freq=1,4"], 4),
        (["--distributed-world-size", "2"], 2),
        (["--distributed-world-size", "2", "--update-freq", "2"], 4),
    ],
)
def test_the_batches_of_a_step_count_towards_epochs_and_time(given, batches):
    usual, more = (make_recipe("base", ABSTRACTS, CORES, "etads", words, 60) for words in ([], given))
    assert more.steps == pytest.approx(usual.steps / batches, rel=0.02)
    assert more.epochs == pytest.approx(usual.epochs, rel=0.02)
    assert more.minutes == pytest.approx(usual.minutes, rel=0.02)
    assert f"; {batches} batches in a step" in more.says[1] and "in a step" not in usual.says[1]
    assert more.says[1].startswith(usual.says[1])
    assert value_of(more.train, "--dropout") == value_of(usual.train, "--dropout")


def test_the_last_step_of_an_epoch_may_have_fewer_batches():
    data = TrainingDataSize(300, *two(HEADLINES))
    one_batch, four_batches = (make_recipe("small", data, CORE, "etads", words) for words in ([], ["--update-freq=4"]))
    assert 4 < one_batch.steps / one_batch.epochs < 8  # batches in an epoch, so two steps of four batches
    assert (four_batches.steps, four_batches.epochs) == (12, 6)
    assert four_batches.minutes == pytest.approx(one_batch.minutes, rel=0.1)


def test_each_worker_has_a_gpu():
    one, all_four = (make_recipe("large", NEWS, Machine(16, gpus), "etads", [], 30) for gpus in (1, 4))
    assert all_four.steps == pytest.approx(one.steps, rel=0.02)
    assert all_four.epochs == pytest.approx(4 * one.epochs, rel=0.02)
    assert "4 batches in a step" in all_four.says[1] and "on 4 GPUs" in all_four.says[-1]
    of_four = make_recipe("large", NEWS, Machine(16, 4), "etads", ["--distributed-world-size", "1"], 30)
    assert (of_four.steps, of_four.minutes) == (one.steps, one.minutes) and "on 1 GPU " in of_four.says[-1]


@pytest.mark.parametrize("dtype", ["--fp16", "--bf16"])
def test_half_precision_keeps_the_matrices_apart(dtype):
    """By default, fairseq joins all weights in one vector, so Muon finds no matrix."""
    flag = "--fp16-no-flatten-grads"
    assert flag in make_recipe("large", NEWS, GPU, "etads", [dtype]).train
    assert flag not in make_recipe("large", NEWS, GPU, "etads").train
    assert flag not in make_recipe("large", NEWS, GPU, "etads", [dtype, "--optimizer", "adam"]).train


def test_two_dictionaries_have_no_pointer():
    recipe = make_recipe("small", TrainingDataSize(12_000, *two(HEADLINES), one_dictionary=False), CORE, "etads")
    assert value_of(recipe.train, "--pointer") == "none" and "--pointer-continue" not in recipe.train
    assert "--no-share-all-embeddings" in recipe.train


@pytest.mark.parametrize("name", ["small", "base", "large"])
def test_another_architecture_is_refused_in_words(name):
    with pytest.raises(
        InputError, match=rf"--recipe {name}: works only with --arch etads, .*choose --recipe paper for pg_cov"
    ):
        make_recipe(name, HEADLINES, CORE, "pg_coverage")


def test_it_says_what_was_chosen_and_how_long_it_takes():
    said = "\n".join(make_recipe("small", HEADLINES, CORES, "etads", ["--lr", "1e-3"]).says)
    for part in (
        "2+2 layers of width 128",
        "muon, rate 1e-3",
        "multiples of 8",
        "4 to 12 tokens",
        "minutes on 2 cores",
    ):
        assert part in said, said
    assert "a guess" in make_recipe("large", NEWS, GPU, "etads").says[-1]


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
    monkeypatch.setattr(recipe_choice, "detect_training_hardware", lambda cpu, processes=1: Machine(2))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *words):
    """Run the choice for train.sh; returns its exit status, the words that it prints, and its messages."""
    status = main([words[0], "run", "prepared", *words[1:]])
    captured = capsys.readouterr()
    return status, captured.out.split("\n")[:-1], captured.err


def test_a_run_keeps_its_recipe_on_whatever_machine(folder, capsys, monkeypatch):
    status, first, said = run(capsys, "train", "--given", "--seed", "2")
    assert status == 0 and "recipe small, chosen for 400 pairs" in said
    assert json.loads((folder / "run" / "recipe.json").read_text())["percentiles of tokens"]["summaries"]["50"] == 6
    monkeypatch.setattr(recipe_choice, "detect_training_hardware", lambda cpu, processes=1: Machine(1))
    assert run(capsys, "train", "--given", "--seed", "2")[1] == first
    other = run(capsys, "train", "--given", "--max-update", "7")[1]
    assert value_of(other, "--max-update") == "7" != value_of(first, "--max-update")


def test_a_run_that_has_a_recipe_continues_with_it_if_none_is_named(folder, capsys):
    first = run(capsys, "train", "--recipe", "base", "--minutes", "1", "--given")[1]
    assert run(capsys, "train", "--given")[1] == first
    assert "recipe base" in run(capsys, "train", "--given", "--max-update", "3")[2]
    assert value_of(run(capsys, "train", "--recipe", "small", "--given")[1], "--encoder-embed-dim") == "128"


def test_the_lengths_of_a_run_are_those_of_its_data(folder, capsys):
    run(capsys, "train", "--recipe", "base", "--given")
    assert read_decoding_options(folder / "run") == {"min_len": 5, "max_len": 10, "no_repeat_ngram_size": 2}
    assert run(capsys, "decoding")[1] == ["--min-len", "5", "--max-len", "10", "--no-repeat-ngram-size", "2"]


@pytest.mark.parametrize("tokens,arguments", [("word", ["run", "--prepared", "prepared"]), ("gpt2", [])])
def test_a_content_model_needs_pieces_that_can_be_joined(tokens, arguments, folder, capsys):
    settings = {"tokens": tokens, "lowercase": False, "target_marks": False}
    (folder / "prepared" / "prepare.json").write_text(json.dumps({"settings": settings}))
    assert run(capsys, "content", "--given") == (0, arguments, "")


@pytest.mark.parametrize("content", ["", "[]", '{"recipe": "small"}', '{"recipe": "tiny", "decoding": {}}'])
def test_a_damaged_record_is_as_none(content, folder):
    (folder / "run").mkdir()
    (folder / "run" / "recipe.json").write_text(content)
    assert read_decoding_options(folder / "run") == {}


@pytest.mark.parametrize("name", ["training.json", "started.txt", "finished.txt"])
def test_a_training_that_was_begun_without_a_recipe_goes_on_so(name, folder, capsys):
    (folder / "run").mkdir()
    (folder / "run" / name).write_text("fairseq-train …")
    if name == "training.json":
        assert run(capsys, "train", "--given")[1], "a training that failed at once decides nothing"
        (folder / "run" / "recipe.json").unlink()
        (folder / "run" / "checkpoints").mkdir()
        (folder / "run" / "checkpoints" / "checkpoint_last.pt").touch()
    status, words, said = run(capsys, "train", "--given")
    assert (status, words) == (0, []) and "started without a recipe" in said
    assert run(capsys, "prepare", "--text", "nowhere", "--given")[1] == []
    assert run(capsys, "train", "--recipe", "small", "--given")[1]


@pytest.mark.parametrize("words", [["--recipe", "paper"], ["--arch", "pg_coverage"]])
def test_paper_chooses_nothing(words, folder, capsys):
    assert run(capsys, "train", *words, "--given")[1] == []
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    "words,why",
    [
        (["--recipe", "paper"], ": choose another recipe"),
        (["--arch", "pg_coverage"], ", which is used for --arch pg_coverage: leave it out"),
        ([], ", with which run was started: leave it out"),
    ],
)
def test_minutes_are_refused_where_paper_would_ignore_them(words, why, folder, capsys):
    if not words:
        assert run(capsys, "check", "--minutes", "2", "--given") == (0, [], "")
        (folder / "run").mkdir()
        (folder / "run" / "finished.txt").touch()
    status, _, said = run(capsys, "check", "--minutes", "2", *words, "--given")
    assert status == 2 and f"--minutes 2 has no effect with --recipe paper{why}" in said
    assert run(capsys, "check", "--minutes", "2", "--recipe", "small", "--given") == (0, [], "")
    assert run(capsys, "check", *words, "--given") == (0, [], "")


def test_text_is_prepared_as_words_and_the_second_time_as_the_first(folder, capsys):
    shutil.copytree(folder / "prepared" / "tokens", folder / "text")
    assert run(capsys, "prepare", "--text", "text", "--given")[1] == ["--tokens", "word", "--size", "700"]
    (folder / "prepared" / "prepare.json").unlink()
    assert run(capsys, "prepare", "--text", "text", "--given")[1] == ["--tokens", "word", "--size", "500"]
    assert run(capsys, "prepare", "--text", "text", "--size", "90", "--given")[1] == ["--tokens", "word"]
    assert run(capsys, "prepare", "--text", "text", "--tokens", "bpe", "--given")[1] == []
    assert run(capsys, "prepare", "--text", "text", "--recipe", "large", "--given")[1] == []


def test_a_folder_without_training_texts_is_refused_in_words(folder, capsys):
    (folder / "prepared" / "tokens" / "train.target").unlink()
    status, _, said = run(capsys, "train", "--given")
    assert status == 2 and "train.target: no such file" in said
    (folder / "prepared" / "tokens" / "train.target").touch()
    (folder / "prepared" / "tokens" / "train.source").write_text("")
    assert run(capsys, "train", "--given")[0] == 2


def test_lengths_are_of_texts_from_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe_choice, "SAMPLE", 10)
    for side in ("source", "target"):
        (tmp_path / f"train.{side}").write_text("".join("w " * (number // 100 + 1) + "\n" for number in range(300)))
    data = measure_text_lengths(tmp_path)
    assert data.pairs == 300 and data.documents.get_percentile(0) == 1 and data.documents.get_percentile(100) == 3
    assert data.summaries.compute_mean() == pytest.approx(2, rel=0.1) and data.summaries.compute_mean(longest=1) == 1


def test_the_machine_is_what_a_training_may_use(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert detect_training_hardware(cpu=True) == Machine(1)
    monkeypatch.setattr(recipe_choice.metadata, "version", lambda name: "2.0+cu126")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert detect_training_hardware(cpu=False).gpus == 2 and detect_training_hardware(cpu=True).gpus == 0
    for visible, gpus in {"": 0, "-1": 0, "NoDevFiles": 0, "1,-1,0": 1, "GPU-8932f937,MIG-4b": 2, " 3 , 2": 2}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert detect_training_hardware(cpu=False).gpus == gpus, visible


def test_every_name_is_one_of_the_scripts():
    assert NAMES == ("small", "base", "large", "paper")
