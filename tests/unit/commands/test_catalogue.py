"""etads-models: sizes against hand-computed ones, and options that fairseq-train --help does not show."""

import logging
from argparse import Namespace

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_etads.commands.models import main
from fairseq_etads.jobs.architectures import PRESETS, count_parameters, make_architecture_config

V, D, FFN, LAYERS = 50_000, 512, 2048, 4
ATTENTION = 4 * (D * D + D)  # query, key, value and output projections with their biases
FEED_FORWARD = D * FFN + FFN + FFN * D + D
NORM = 2 * D
# These count source and target positions, with the end symbol, and two rows that fairseq keeps for padding.
EMBEDDINGS = V * D + (401 + 2) * D + (101 + 2) * D
BASIC = EMBEDDINGS + LAYERS * (ATTENTION + FEED_FORWARD + 2 * NORM) + LAYERS * (2 * ATTENTION + FEED_FORWARD + 3 * NORM)
FOCUS = LAYERS * (2 * D * D + 2 * D)  # W_p, W_g, U_c, U_d
SALIENCY = LAYERS * 2 * D * D  # W_h, W_s
# Sinusoidal positions have no parameters, and attn with L=1 adds one attention.
AGGREGATION = BASIC - (401 + 2) * D - (101 + 2) * D + ATTENTION

# d_m = 256, FFN 1024, 2 layers; source words, target words and the output projection are three tables
ES_ATTENTION = 4 * (256 * 256 + 256)
ES_LAYER = ES_ATTENTION + (256 * 1024 + 1024 + 1024 * 256 + 256) + 2 * 512  # with the sublayers' norms
ES_LAYERS = 2 * ES_LAYER + 2 * (ES_ATTENTION + 512)  # the decoder only adds bridge attention and its norm
ES = 3 * V * 256 + ES_LAYERS
GATE = 256 * 512 + 256  # W_g, b

# words of 200, GRUs of 400 with two biases for each of three gates; the encoder's states are 800 wide
READER = 2 * 3 * (200 * 400 + 400 * 400 + 2 * 400) + (800 * 400 + 400)  # both directions, and the decoder's first state
# The decoder's GRU, and the readout.
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
        ("words_lvt2k_hieratt", {"encoder_hidden_size": 12, "source_factors": "tf:3,idf:3"}),
        ("convs2s", {"encoder_layers": "[(8, 3)] * 2"}),
        ("abs", {}),
    ],
)
def test_options_are_those_that_fairseq_composes(arch, changes):
    """Types are also the same. Only a few are compared, because each composition by fairseq takes half a second."""
    fairseqs = convert_namespace_to_omegaconf(Namespace(arch=arch, **changes)).model
    ours = make_architecture_config(arch, **changes)
    assert ours == fairseqs and {name: type(ours[name]) for name in ours} == {
        name: type(fairseqs[name]) for name in ours
    }


@pytest.mark.parametrize(
    "arch,expected",
    [
        ("etads_basic", BASIC),
        ("etads_focus", BASIC + FOCUS),
        ("etads_saliency", BASIC + SALIENCY),
        ("etads", BASIC + FOCUS + SALIENCY),
        ("aggregation_transformer", AGGREGATION),
        ("es_transformer", ES),
        ("gated_es_transformer", ES + GATE),
        ("gru_seq2seq", 3 * V * 200 + V + GRU),
    ],
)
def test_parameter_counts(arch, expected):
    assert count_parameters(arch, V) == expected


@pytest.mark.parametrize(
    "arch,expected",
    [
        ("es_transformer", (90_000 + 2 * T) * 256 + ES_LAYERS),
        ("gru_seq2seq", (90_000 + 2 * T) * 200 + T + GRU),
    ],
)
def test_parameter_counts_with_two_dictionaries(arch, expected):
    assert count_parameters(arch, 90_000, T) == expected


@pytest.mark.parametrize("arch,saved", [("etads", 0), ("pg_coverage", 1), ("feats_lvt2k_ptr", 2 * 200 + 1)])
def test_parameter_counts_with_a_bound_for_each_side(arch, saved):
    """A word that only the encoder knows has no row in separate tables and in biases."""
    assert count_parameters(arch, 90_000, T) == count_parameters(arch, 90_000) - (90_000 - T) * saved
    assert count_parameters(arch, 90_000, 90_000) == count_parameters(arch, 90_000)


def test_every_architecture_is_listed_and_those_that_need_one_dictionary(capsys):
    main(["--vocabulary", "100", "--target-vocabulary", "101"])
    head, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in (head, *lines)] == ["--arch", *PRESETS]
    assert not logging.getLogger("hydra.core.utils").isEnabledFor(logging.DEBUG), "a line for each model"
    assert "--saliency-layers none" in next(line for line in lines if line.startswith("etads_focus"))
    place = head.index("changed options")
    assert all(line[place - 3 : place] == "   " != line[place - 4 : place - 1] for line in lines)
    counts = {line.split()[0]: line[:place].split(maxsplit=1)[1].strip() for line in lines}
    assert {arch for arch, count in counts.items() if count == "one dictionary"} == {
        *("etads", "etads_basic", "etads_focus", "etads_saliency", "aggregation_transformer"),
        *("etads_bart_base", "etads_bart_large", "feats_lvt2k_ptr", "pg_coverage", "pointer_generator"),
        *("pointer_generator_coverage", "unified_summarizer", "explicit_selection", "sentence_rewriter"),
    }
    assert counts["gated_es_transformer"] == f"{302 * 256 + ES_LAYERS + GATE:,}"


def test_options_are_shown_with_their_defaults(capsys):
    main(["etads_focus"])
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "--focus-layers",
        "--truncate-source",
        "(default: all)",
        "(default: none)",
        "--no-share-all-embeddings",
    ):
        assert words in shown


def test_the_examples_of_the_help_have_a_line_each(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("  etads-models") for line in shown) >= 3


@pytest.mark.parametrize("argv", [["etadz"], ["--vocabulary", "2"], ["--target-vocabulary", "4"]])
def test_bad_arguments_are_refused(argv, capsys):
    assert main(argv) == 2
    assert argv[-1] in capsys.readouterr().err
