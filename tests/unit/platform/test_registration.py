"""``import fairseq_etads`` is light, and the plugin is registered as soon as fairseq is imported by anyone."""

import subprocess
import sys
from pathlib import Path

import pytest
from programs import in_forks
from selection_data import write_data

from fairseq_etads.platform.optional_parts import defer_statistics

REGISTERED = """
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
import fairseq.checkpoint_utils
assert "summarization" in TASK_REGISTRY and "etads" in ARCH_MODEL_REGISTRY, "not registered"
assert "summarization_nll" in CRITERION_REGISTRY
assert hasattr(fairseq.checkpoint_utils.load_checkpoint_to_cpu, "is_replacement"), "checkpoints load unsafely"
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


@pytest.mark.parametrize("program", ["etads-models", "notebook.py"])
def test_imports_are_light_in_every_program(program):
    """This once depended on the program's name, so scoring in a notebook waited for torch and fairseq."""
    modules = (
        "version evaluation.rouge commands.rouge commands.summarize commands.export summarizer text.words data.labels"
    )
    modules = ["fairseq_etads", *(f"fairseq_etads.{name}" for name in modules.split())]
    modules += ["etads_preprocess.corpus", "etads_preprocess.prepare", "etads_preprocess.encode"]
    run(
        f"import importlib\nsys.argv = [{program!r}]\nfor name in {modules}:\n    importlib.import_module(name)\n"
        "    heavy = {'torch', 'fairseq'} & set(sys.modules)\n    assert not heavy, (name, heavy)"
    )


IMPORTS = [
    "import fairseq\nimport fairseq_etads",
    "import fairseq_etads\nfrom fairseq import checkpoint_utils",
    "from fairseq_etads import Summarizer",
    "from fairseq_etads.generation import SummaryGenerator",
    "import etads_preprocess.dictionary",
    "import torch\nimport fairseq_etads\ndef late():\n    import fairseq\nlate()",
    "from fairseq.utils import import_user_module\n"
    "from argparse import Namespace\nimport_user_module(Namespace(user_dir='fairseq_etads'))",
]
EXTENDED = """
import fairseq_etads.plugin
import fairseq_cli.train as command
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask
SummarizationTask.setup_task(SummarizationConfig(data="."))
assert command.train.is_replacement and command.validate_and_save.is_replacement
"""
"""Training used to run without the changes to its loop if it was imported after the plugin."""


def test_the_plugin_is_registered_whoever_imports_fairseq_and_extends_it(tmp_path):
    write_data(tmp_path, {"train": [("a b", "a")]})
    codes = [*(f"import sys\n{imports}{REGISTERED}" for imports in IMPORTS), EXTENDED]
    found = in_forks([(tmp_path, code, ()) for code in codes], ["torch", "hydra"])
    assert [(status, code, said) for code, (status, said) in zip(codes, found) if status] == []
    assert len(found) == len(codes)


def test_fairseq_is_imported_quietly_and_without_statistics_that_still_work():
    result = run(
        "from fairseq_etads import Summarizer\nfrom fairseq_etads.text.words import split_sentences\n"
        "assert split_sentences('One dog. Two cats.') == ['One dog.', 'Two cats.']\n"
        "assert not {'sklearn', 'scipy.sparse', 'scipy.stats'} & {*sys.modules}\n"
        "from fairseq.criterions.sentence_prediction import f1_score, pearsonr\n"
        "assert round(f1_score([1, 0, 1], [1, 1, 1]), 3) == 0.8 and round(pearsonr([1, 2, 3], [2, 4, 6])[0], 3) == 1\n"
        "from sklearn.metrics import f1_score\nassert f1_score.__module__ == 'sklearn.metrics._classification'"
    )
    assert result.stdout == "" and result.stderr == ""


def test_modules_that_are_there_are_not_deferred_and_an_error_leaves_no_stand_in(monkeypatch):
    import scipy.stats

    monkeypatch.delitem(sys.modules, "sklearn.metrics", raising=False)
    with pytest.raises(KeyError), defer_statistics():
        from scipy.stats import pearsonr

        assert pearsonr is scipy.stats.pearsonr
        raise KeyError
    assert "sklearn.metrics" not in sys.modules


def test_a_model_folder_summarises_without_a_compiler():
    """torch imports its compiler and sympy, which takes a second, for operators on the device "meta"."""
    run(
        "from fairseq_etads import Summarizer\n"
        "assert Summarizer.load('debian', device='cpu').summarize(['Library for parsing XML.'])[0].text\n"
        "found = {'torch._dynamo', 'sympy', 'sklearn', 'scipy.stats'} & {*sys.modules}\nassert not found, found"
    )


def test_an_import_that_fails_is_tried_again(tmp_path):
    (tmp_path / "fairseq.py").write_text("raise ImportError('half installed')\n")
    run(
        f"import fairseq_etads\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    import fairseq\nexcept ImportError as error:\n    assert 'half installed' in str(error)\n"
        f"else:\n    raise AssertionError\nsys.path.remove({str(tmp_path)!r})\nimport fairseq" + REGISTERED
    )


def test_workers_of_preparation_have_the_plugin():
    result = run(
        "from etads_preprocess.encode import PLUGIN, map_in_order\nfrom functools import partial\n"
        "from mapped import is_registered\n"
        "if __name__ == '__main__':\n"
        "    known = map_in_order(partial, (is_registered,), ['summarization'] * 200, 2, [PLUGIN], small=1)\n"
        "    assert set(known) == {True}\n"
        "    assert 'fairseq' not in sys.modules"
    )
    assert result.stderr == ""
