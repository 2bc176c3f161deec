"""The command etads, with all commands under one name, completion, and a report on the installation; etads-models."""

import re
import runpy
import subprocess
from argparse import Namespace
from dataclasses import fields
from pathlib import Path

import pytest
import setuptools
from fairseq import registry
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

import fairseq_etads.commands
from fairseq_etads.commands import docs, doctor, etads
from fairseq_etads.commands.completion import make_completion_script
from fairseq_etads.commands.etads import find_commands, main
from fairseq_etads.commands.models import main as list_models
from fairseq_etads.pipeline.architectures import PRESETS, count_parameters, make_architecture_config
from fairseq_etads.platform import optional_parts

SETUP = Path(__file__).parents[3] / "setup.py"


def test_setup_installs_the_commands_that_are_found(monkeypatch):
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(SETUP))
    found = {f"etads-{name}={c.module}:main" for name, c in find_commands().items() if c.is_installed}
    assert found == {*given["entry_points"]["console_scripts"]} - {"etads=fairseq_etads.commands.etads:main"}


def test_a_new_module_is_a_command(tmp_path, monkeypatch, capsys):
    docstring = '"""The command ``etads-shout`` (evaluate): print words."""'
    (tmp_path / "shout.py").write_text(f"{docstring}\n\ndef main(words):\n    print(*words)\n")
    monkeypatch.setattr(fairseq_etads.commands, "__path__", [str(tmp_path)])
    monkeypatch.setattr(etads, "find_commands", find_commands.__wrapped__)
    assert main(["shout", "a"]) is None and main([]) == 0
    assert re.match(r"a\n(?s:.*)Evaluate:\n  shout +print words\n", capsys.readouterr().out)


def test_a_command_is_called_by_its_short_name_with_its_exit_status(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("a b c\n")
    for name in ("rouge", "etads-rouge"):
        assert main([name, *[str(tmp_path / "a.txt")] * 2]) == 0 and "ROUGE-1" in capsys.readouterr().out
    assert main(["rouge", "missing", "missing"]) == 2
    assert capsys.readouterr().err.startswith("etads-rouge: ")
    for word, name in {"sumarize": "summarize", "evaluate": "rouge, compare or analyse"}.items():
        assert main([word]) == 2 and f"did you mean {name}?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["help", "rouge"])
    assert capsys.readouterr().out.startswith("usage: etads-rouge")


def test_bash_completes_commands_options_and_values():
    for line, words in (
        ("etads su", ["summarize"]),
        ("/usr/bin/etads-summarize --length-penalty-t", ["--length-penalty-type"]),
        ("etads rouge --backend p", ["python", "perl"]),
    ):
        code = f"{make_completion_script()}\nCOMP_WORDS=({line}); COMP_CWORD={line.count(' ')}; _etads\n"
        code += "printf '%s\\n' \"${COMPREPLY[@]}\""
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr == "" and done.stdout.split() == words


def test_pages_are_printed_and_help_names_none_that_is_missing(capsys):
    assert main(["docs", "using"]) == 0 and capsys.readouterr().out.startswith("# Using a trained model\n")
    for path in (*Path(etads.__file__).parent.glob("*.py"), *(SETUP.parent / "preprocess").glob("*.py")):
        for page in re.findall(r"etads docs (\w+)[\s.)]", path.read_text(encoding="utf-8")):
            assert (docs.FOLDER / f"{page}.md").is_file(), path


def test_doctor_tries_a_summary_and_fails_with_it(capsys, monkeypatch):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    document, summary = re.search(r"^self-test: \d+\.\d s, (Vim is .*) -> (\w.*)$", shown, re.MULTILINE).groups()
    readme = (SETUP.parent / "README.md").read_text(encoding="utf-8")
    assert f'echo "{document}" | etads summarize debian\n' in readme and f"line prints `{summary}`" in readme
    monkeypatch.setattr(doctor, "find_folder", lambda name: Path("/nonexistent"))
    assert main(["doctor"]) == 1
    assert "self-test failed: " in capsys.readouterr().err


def test_extras_are_those_of_setup():
    section = SETUP.read_text(encoding="utf-8").partition("extras_require={")[2].partition("entry_points")[0]
    known = set(re.findall(r'^        "([\w-]+)":', section, re.MULTILINE))
    assert set(optional_parts.EXTRAS) == known - {"docs", "mutation", "benchmarks", "dev"}, "no command uses these four"


# ---- etads-models

V, D, FFN, LAYERS = 50_000, 512, 2048, 4
ATTENTION = 4 * (D * D + D)  # query, key, value and output projections with their biases
FEED_FORWARD = D * FFN + FFN + FFN * D + D
NORM = 2 * D
# These count source and target positions, with the end symbol, and two rows that fairseq keeps for padding.
EMBEDDINGS = V * D + (401 + 2) * D + (101 + 2) * D
BASIC = EMBEDDINGS + LAYERS * (ATTENTION + FEED_FORWARD + 2 * NORM) + LAYERS * (2 * ATTENTION + FEED_FORWARD + 3 * NORM)
FOCUS = LAYERS * (2 * D * D + 2 * D)  # W_p, W_g, U_c, U_d
SALIENCY = LAYERS * 2 * D * D  # W_h, W_s

# words of 200, GRUs of 400 with two biases for each of three gates; the encoder's states are 800 wide
READER = 2 * 3 * (200 * 400 + 400 * 400 + 2 * 400) + (800 * 400 + 400)  # both directions, and the decoder's first state
WRITER = 3 * ((200 + 800) * 400 + 400 * 400 + 2 * 400) + ((400 + 200 + 800) * 200 + 200)
ADDITIVE = 800 * 400 + 400 * 400 + (200 * 400 + 400) + 400  # from states, hidden state and previous word; v
GRU = READER + WRITER + ADDITIVE
T = 68_883  # target words, two tables, and an output bias in the recurrent models


@pytest.mark.parametrize(
    "arch,changes",
    [
        ("etads", {"encoder_embed_dim": 32, "focus_layers": "1-2", "dropout": 0.25, "pointer": "soft"}),
        ("etads", {"pointer": "soft", "pointer_continue": True}),
        ("etads_bart_base", {"adaptive_softmax_cutoff": [20, 30], "share_all_embeddings": False}),
        ("convs2s", {"encoder_layers": "[(8, 3)] * 2"}),
        ("abs", {}),
    ],
)
def test_options_are_those_that_fairseq_composes(arch, changes):
    """Only a few are compared, because each composition by fairseq takes half a second."""
    fairseqs = convert_namespace_to_omegaconf(Namespace(arch=arch, **changes)).model
    ours = make_architecture_config(arch, **changes)
    assert ours == fairseqs and all(type(ours[name]) is type(fairseqs[name]) for name in ours)


@pytest.mark.parametrize(
    "arch,words,expected",
    [
        ("etads_basic", (V,), BASIC),
        ("etads_focus", (V,), BASIC + FOCUS),
        ("etads", (V,), BASIC + FOCUS + SALIENCY),
        ("gru_seq2seq", (90_000, T), (90_000 + 2 * T) * 200 + T + GRU),
    ],
)
def test_parameter_counts(arch, words, expected):
    assert count_parameters(arch, *words) == expected


def test_every_architecture_is_listed_and_those_that_need_one_dictionary(capsys):
    list_models(["--vocabulary", "100", "--target-vocabulary", "101"])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [arch for arch, _ in lines] == [*PRESETS]
    needed = {arch for arch, rest in lines if rest.startswith("one dictionary")}
    assert {"etads", "pointer_generator"} <= needed and not {"gru_seq2seq", "abs", "convs2s"} & needed
    assert dict(lines)["gru_seq2seq"].startswith(f"{(100 + 2 * 101) * 200 + 101 + GRU:,} ")


# ---- configurations for fairseq-hydra-train


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    """A folder with the configuration of every architecture, written by the command."""
    path = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert list_models(["--configs", "configs"]) == 0
    return path / "configs"


def composed(path, **data):
    """Hydra's configuration from a file: checked against fairseq's options, with the defaults of parts."""
    cfg = OmegaConf.merge(OmegaConf.structured(FairseqConfig), OmegaConf.load(path), {"task": data})
    add_defaults(cfg)
    return cfg


@pytest.mark.parametrize("arch", sorted(PRESETS))
def test_every_option_exists_and_the_model_is_the_preset(arch, configs):
    cfg = composed(configs / f"{arch}.yaml", data="bin")
    preset = getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass")()
    assert cfg.model._name == arch
    for option in fields(preset):
        if option.name == "_name":
            continue
        expected, found = getattr(preset, option.name), OmegaConf.to_container(cfg.model)[option.name]
        found, expected = (getattr(value, "value", value) for value in (found, expected))
        assert found == expected or str(found) == str(expected), option.name
    for part in ("criterion", "optimizer", "lr_scheduler"):
        known = {name: r["dataclass_registry"] for name, r in registry.REGISTRIES.items()}[part]
        assert cfg[part]._name in known
        OmegaConf.to_container(cfg[part], resolve=True)
    limits = cfg.optimization
    assert limits.max_update or limits.max_epoch or limits.stop_min_lr > 0, "it would never end"


def test_parts_of_an_architecture_s_own_training_replace_the_common_ones(configs):
    names = ("etads", "words_lvt2k_temp_att", "pg_coverage")
    etads, temporal, coverage = (composed(configs / f"{arch}.yaml") for arch in names)
    assert etads.lr_scheduler.warmup_updates == 8000 and list(etads.optimization.lr) == [4.94e-4]
    assert temporal.optimizer._name == "lazy_adadelta" and temporal.optimization.max_epoch == 35
    assert (temporal.task.truncate_source, temporal.task.sort_within, temporal.dataset.batch_size) == (800, 10, 50)
    assert coverage.optimizer._name == "lazy_adagrad" and "adadelta_rho" not in coverage.optimizer
    assert coverage.criterion.coverage_loss_start == 230000 < coverage.optimization.max_update


def test_there_is_one_for_every_architecture_and_the_examples_are_these(configs):
    assert {path.name for path in configs.iterdir()} == {f"{arch}.yaml" for arch in PRESETS}
    examples = SETUP.parent / "configs"
    assert {path.name for path in examples.iterdir()} == {"etads.yaml", "words_lvt2k_temp_att.yaml"}
    for path in examples.iterdir():
        assert path.read_text() == (configs / path.name).read_text(), "etads-models --configs configs"
