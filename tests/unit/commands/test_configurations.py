"""Configurations written by etads-models: complete for fairseq-hydra-train, and true to the presets."""

from dataclasses import fields
from pathlib import Path

import pytest
from fairseq import registry
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_etads.commands.models import main
from fairseq_etads.jobs.architectures import PRESETS
from fairseq_etads.jobs.configurations import write_configurations
from fairseq_etads.training.task import SummarizationTask

EXAMPLES = Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    """A folder with the configuration of every architecture."""
    folder = tmp_path_factory.mktemp("made") / "configs"
    write_configurations(folder)
    return folder


def composed(path, **data):
    """Hydra's configuration from a file: checked against fairseq's options, with the defaults of parts."""
    cfg = OmegaConf.merge(OmegaConf.structured(FairseqConfig), OmegaConf.load(path), {"task": data})
    add_defaults(cfg)
    return cfg


def test_the_command_writes_one_for_every_architecture(tmp_path, capsys, configs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--configs", "configs"]) == 0
    assert f"{len(PRESETS)} configurations" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "configs").iterdir()}
    assert names == {path.name for path in configs.iterdir()} == {f"{arch}.yaml" for arch in PRESETS}


def test_the_examples_are_those_that_the_command_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["--configs", "configs"]) == 0
    assert {path.name for path in EXAMPLES.iterdir()} == {"etads.yaml", "words_lvt2k_temp_att.yaml"}
    for path in EXAMPLES.iterdir():
        assert path.read_text() == (tmp_path / "configs" / path.name).read_text(), "etads-models --configs configs"


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
    assert cfg.optimization.max_update or cfg.optimization.max_epoch, "it would never end"


def test_the_data_must_be_named_and_options_that_do_not_exist_are_refused(tmp_path, configs):
    with pytest.raises(ValueError, match="no data folder given"):
        SummarizationTask.setup_task(composed(configs / "etads.yaml").task)
    text = (configs / "etads.yaml").read_text()
    for wrong in ("encoder_layer: 4", "dropout: high"):
        path = tmp_path / "wrong.yaml"
        path.write_text(text.replace("dropout: 0.2", wrong))
        with pytest.raises(OmegaConfBaseException):
            composed(path, data="bin")


def test_trainings_are_those_of_the_recipes(configs):
    etads, temporal, coverage = (
        composed(configs / f"{a}.yaml") for a in ("etads", "words_lvt2k_temp_att", "pg_coverage")
    )
    assert etads.lr_scheduler.warmup_updates == 8000 and list(etads.optimization.lr) == [4.94e-4]
    assert temporal.optimizer._name == "lazy_adadelta" and temporal.optimization.max_epoch == 35
    assert (
        temporal.task.truncate_source == 800 and temporal.dataset.batch_size == 50 and temporal.task.sort_within == 10
    )
    assert coverage.optimizer._name == "lazy_adagrad" and "adadelta_rho" not in coverage.optimizer
    assert coverage.criterion.coverage_loss_start == 230000 < coverage.optimization.max_update
    first, second = (composed(configs / f"{arch}.yaml") for arch in ("pointer_generator", "pointer_generator_coverage"))
    for cfg in (first, second):
        assert cfg.task.no_end_if_cut and cfg.criterion.length_normalised and cfg.dataset.batch_size == 16
        assert cfg.optimizer.initial_accumulator == 0.1 and list(cfg.optimization.lr) == [0.15]
    assert (first.criterion.coverage_loss, first.optimization.max_update) == (0, 230000)
    assert (second.criterion.coverage_loss, second.optimization.max_update) == (1, 3000)
    text = (configs / "pointer_generator_coverage.yaml").read_text()
    assert "# It starts from a trained pointer_generator: task.init_from=" in text


def test_one_architecture_and_all_exclude_one_another(tmp_path, capsys):
    assert main(["etads", "--configs", str(tmp_path / "x")]) == 2
    assert "cannot be used with ARCH etads" in capsys.readouterr().err and not (tmp_path / "x").exists()


def test_a_folder_that_is_there_is_written_into(tmp_path):
    (tmp_path / "mine.yaml").write_text("a: 1")
    assert len(write_configurations(tmp_path)) == len(PRESETS)
    assert (tmp_path / "mine.yaml").read_text() == "a: 1"
