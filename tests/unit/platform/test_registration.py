"""``import fairseq_etads`` is light, and the plugin is registered as soon as fairseq is imported by anyone."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from selection_data import write_data

REST = {
    "args": None,
    "optimizer_history": [{"best_loss": 1.0, "num_updates": 1}],
    "extra_state": {"train_iterator": {}},
}
REGISTERED = """
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
import fairseq.checkpoint_utils
assert "summarization" in TASK_REGISTRY and "etads" in ARCH_MODEL_REGISTRY, "not registered"
assert "summarization_nll" in CRITERION_REGISTRY
assert getattr(fairseq.checkpoint_utils.load_checkpoint_to_cpu, "is_safe", False), "checkpoints load unsafely"
assert not any(type(finder).__name__ == "_RegisterWithFairseq" for finder in sys.meta_path), "still waiting"
import fairseq_etads.training.task
assert TASK_REGISTRY["summarization"] is fairseq_etads.training.task.SummarizationTask, "imported twice"
"""


def run(code):
    tests = str(Path(__file__).parents[2])  # mapped.py
    code = f"import sys\nsys.path.append({tests!r})\n{code}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize("program", ["etads-models", "fairseq-train", "notebook.py"])
def test_imports_are_light_in_every_program(program):
    """This once depended on the program's name, so scoring in a notebook waited for torch and fairseq."""
    modules = [
        *("fairseq_etads", "fairseq_etads.version", "fairseq_etads.evaluation", "fairseq_etads.evaluation.rouge"),
        *("fairseq_etads.commands.rouge", "fairseq_etads.commands.summarize", "fairseq_etads.commands.export"),
        *("fairseq_etads.summarizer", "fairseq_etads.text.words", "fairseq_etads.data.labels.sentence_overlap"),
        *("etads_preprocess.corpus", "etads_preprocess.prepare", "etads_preprocess.processes"),
    ]
    run(
        f"import importlib\nsys.argv = [{program!r}]\nfor name in {modules}:\n    importlib.import_module(name)\n"
        "    heavy = {'torch', 'fairseq'} & set(sys.modules)\n    assert not heavy, (name, heavy)"
    )


@pytest.mark.parametrize(
    "imports",
    [
        "import fairseq\nimport fairseq_etads",
        "import fairseq_etads\nfrom fairseq import checkpoint_utils",
        "import fairseq_etads\nimport fairseq_cli.train",
        "from fairseq_etads import Summarizer",
        "from fairseq_etads.generation import SummaryGenerator",
        "from fairseq_etads.training.task import SummarizationTask",
        "import fairseq_etads.platform.compat",
        "import fairseq_etads.plugin",
        "import etads_preprocess.dictionary",
        "import torch\nimport fairseq_etads\ndef late():\n    import fairseq\nlate()",
        "from fairseq.utils import import_user_module\n"
        "from argparse import Namespace\nimport_user_module(Namespace(user_dir='fairseq_etads'))",
    ],
)
def test_the_plugin_is_registered_whoever_imports_fairseq(imports):
    run(imports + REGISTERED)


def test_fairseq_train_is_extended_if_it_is_imported_after_the_plugin(tmp_path):
    """Training used to run without the changes to its loop, such as saving after a signal."""
    write_data(tmp_path, {"train": [("a b", "a")]})
    run(
        "import fairseq_etads.plugin\nimport fairseq_cli.train as command\n"
        "from fairseq_etads.training.options import SummarizationConfig\n"
        "from fairseq_etads.training.task import SummarizationTask\n"
        f"SummarizationTask.setup_task(SummarizationConfig(data={str(tmp_path)!r}))\n"
        "assert command.train.is_patched and command.validate_and_save.is_patched"
    )


@pytest.mark.parametrize("imports", ["import fairseq_etads, fairseq", "from fairseq_etads import Summarizer"])
def test_fairseq_is_imported_quietly_and_without_statistics(imports):
    result = run(f"{imports}\nassert 'sklearn' not in sys.modules and 'scipy.stats' not in sys.modules")
    assert result.stdout == "" and result.stderr == ""


def test_a_checkpoint_loads_after_importing_the_generator_alone(tmp_path):
    """torch refuses the settings in a checkpoint unless the plugin has named their classes."""
    path = tmp_path / "checkpoint.pt"
    config = OmegaConf.create({"task": {"_name": "summarization"}, "model": {"_name": "etads"}})
    torch.save({"cfg": config, "model": {}, **REST}, path)
    run(
        "from fairseq_etads.generation import SummaryGenerator\nfrom fairseq import checkpoint_utils\n"
        f"state = checkpoint_utils.load_checkpoint_to_cpu({str(path)!r})\n"
        "assert state['cfg']['task']['_name'] == 'summarization'"
    )


def test_an_import_that_fails_is_tried_again(tmp_path):
    (tmp_path / "fairseq.py").write_text("raise ImportError('half installed')\n")
    run(
        f"import fairseq_etads\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    import fairseq\nexcept ImportError as error:\n    assert 'half installed' in str(error)\n"
        f"else:\n    raise AssertionError\nsys.path.remove({str(tmp_path)!r})\nimport fairseq" + REGISTERED
    )


def test_python_m_runs_a_command():
    result = subprocess.run(
        [sys.executable, "-m", "fairseq_etads.commands.models", "words_lvt2k"], capture_output=True, text=True
    )
    assert result.returncode == 0 and "--encoder-hidden-size" in result.stdout, result.stderr


def test_workers_of_preparation_have_the_plugin():
    result = run(
        "from etads_preprocess.processes import PLUGIN, map_in_order\nfrom mapped import is_registered, nothing\n"
        "if __name__ == '__main__':\n"
        "    known = map_in_order(is_registered, ['summarization'] * 200, 2, nothing, (), [PLUGIN], small=1)\n"
        "    assert set(known) == {True}\n"
        "    assert 'fairseq' not in sys.modules"
    )
    assert result.stderr == ""
