"""``--output-bias``, the b_o of ETADS's equation 4; its start from the text, and that of word vectors."""

import logging
import math
import random

import pytest
import reference
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, PAD, SMALL, make_batch, make_model, model_config
from recurrent import SUMMARIES
from selection_data import dictionary_of, write_data

from fairseq_etads.data import initial_values
from fairseq_etads.data.initial_values import SMOOTHING, WEIGHTS, count_cooccurrences
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

PAIRS = [("a b c d rare", "a b rare"), ("c a b e c a b", "a c c"), ("d e a b", "b")]
UNK = 3


def task_of(folder, pairs=PAIRS, **options):
    write_data(folder, {"train": pairs, "valid": pairs[:1]}, tail=("rare",))
    cfg = SummarizationConfig(data=str(folder), **options)
    cfg.dataset_impl, cfg.train_subset, cfg.required_seq_len_multiple = None, "train", 1
    return SummarizationTask.setup_task(cfg)


def build(task, **options):
    """Build a model like fairseq-train, with all its initial weights."""
    torch.manual_seed(1)
    return task.build_model(model_config("etads", **{**SMALL, **options}))


@pytest.mark.parametrize("shared", [True, False])
def test_the_distribution_is_that_of_the_equation(shared, documents):
    model = make_model("etads", output_bias=True, share_all_embeddings=shared)
    layer, tokens = model.decoder.output_projection, make_batch(documents)
    assert (layer.weight is model.encoder.embed_tokens.weight) is shared
    inputs = (tokens, tokens.ne(PAD).sum(1), make_batch(SUMMARIES))
    with torch.no_grad():
        layer.bias.normal_(std=3.0)  # the logits of a small random model differ by about 1
        output, states = model(*inputs), model(*inputs, features_only=True)[0]
    probabilities = model.get_normalized_probs(output, log_probs=False)
    for row, step in ((0, 2), (2, 0), (4, 1)):
        expected = reference.output_distribution(states[row, step], layer.weight, layer.bias)
        torch.testing.assert_close(probabilities[row, step], torch.tensor(expected), rtol=1e-4, atol=1e-6)


def test_the_papers_numbers_of_parameters():
    """ETADS, Table 4, in units of 10,000: each side with the vectors, the decoder's with the bias; no positions."""
    dictionary = dictionary_of(map(str, range(50000 - Dictionary().nspecial)))
    task = SummarizationTask(SummarizationConfig(), dictionary, dictionary)
    for layers, encoder, decoder in ((2, 3190, 3406), (4, 3821, 4246), (6, 4451, 5087)):
        config = model_config("etads_basic", output_bias=True, encoder_layers=layers, decoder_layers=layers)
        with torch.device("meta"):
            model = ARCH_MODEL_REGISTRY["etads_basic"].build_model(config, task)
        for side, paper in ((model.encoder, encoder), (model.decoder, decoder)):
            count = sum(value.numel() for name, value in side.named_parameters() if "positions" not in name)
            assert abs(count / 10000 - paper) < 1


@pytest.mark.parametrize("pointer,of_rare", [("none", 1), ("soft", 0)])
@pytest.mark.parametrize("cut, no_end", [(None, False), (2, False), (2, True)])
def test_the_bias_is_the_logarithm_of_the_words_frequencies(pointer, of_rare, cut, no_end, tmp_path):
    """Summaries are cut as in training, which keeps the end symbol unless --no-end-if-cut is given."""
    task = task_of(tmp_path, truncate_target=cut, no_end_if_cut=no_end)
    assert task.target_dictionary.known_words < len(task.target_dictionary)
    bias = build(task, pointer=pointer, output_bias=True, output_bias_init="frequencies").decoder.output_projection.bias
    counts = dict.fromkeys(range(len(bias)), 1)
    for _, summary in PAIRS:
        ids = [task.target_dictionary.index(word) for word in summary.split()]
        kept = ids[: cut or 100]
        for number in kept if no_end and len(kept) < len(ids) else [*kept, EOS]:
            known = number < len(bias)
            counts[number if known else UNK] += 1 if known else of_rare
    total = sum(counts.values())
    assert len(set(counts.values())) > 2
    assert bias.tolist() == pytest.approx([math.log(count / total) for count in counts.values()], abs=1e-5)
    assert not build(task, output_bias=True).decoder.output_projection.bias.any(), "without the option"


@pytest.mark.parametrize("shared", [True, False])
def test_word_vectors_begin_as_those_of_the_text_and_special_symbols_at_random(shared, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    task = task_of(tmp_path)
    plain, model = (build(task, share_all_embeddings=shared, embed_from_text=from_text) for from_text in (False, True))
    for side in ("encoder", "decoder"):
        before, after = (getattr(m, side).embed_tokens.weight for m in (plain, model))
        assert torch.equal(after[:4], before[:4])
        torch.testing.assert_close(after[4:].norm(dim=1), torch.ones(len(after) - 4))
    assert torch.equal(model.encoder.embed_tokens.weight, model.decoder.embed_tokens.weight) or not shared
    assert "--embed-from-text: vectors for 5 of 9 words of documents" in caplog.text
    for (name, weight), other in zip(model.named_parameters(), plain.parameters()):
        assert "embed_tokens" in name or "output_projection" in name or torch.equal(weight, other), name


def test_two_dictionaries_have_vectors_of_their_own_texts(tmp_path):
    """A word that has other neighbours in documents than in summaries has two vectors."""
    task = task_of(tmp_path, [("a b c a b c", "c a d c a d"), ("a b c", "c a d")])
    task.tgt_dict = dictionary_of("abcde")
    model = build(task, share_all_embeddings=False, embed_from_text=True)
    vectors = [getattr(model, side).embed_tokens.weight.detach() for side in ("encoder", "decoder")]
    a, c = (task.src_dict.index(word) for word in "ac")
    # the cosine of two words, because the sign of each column depends on the processor
    of_documents, of_summaries = (torch.dot(table[a], table[c]).item() for table in vectors)
    assert abs(of_documents - of_summaries) > 0.1, (of_documents, of_summaries)


def test_only_training_needs_the_training_text(tmp_path):
    options, task = {"output_bias": True, "output_bias_init": "frequencies"}, task_of(tmp_path)
    for path in tmp_path.glob("train.*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r'no split "train" \(--train-subset\)'):
        build(task, **options)
    task = SummarizationTask.setup_task(SummarizationConfig(data=str(tmp_path)))
    task.load_state_dict({})
    assert not build(task, **options, embed_from_text=True).decoder.output_projection.bias.any()


@pytest.mark.parametrize(
    "content, said",
    [
        ("3 2\na 1 2 \nother 5 6\nb 3 4\na 7 8\n", ""),
        ("a 1 2\nb 3\n", "line 2 has 1 numbers instead of 2"),
        ("a 1 x\n", "line 1 is not a word and its numbers"),
        ("a 1 nan\n", "line 1 contains a number that is not finite"),
        ("other 1 2\n", "contains none of the 9 words"),
    ],
)
def test_word_vectors_of_a_file_are_those_of_their_words(content, said, tmp_path):
    (tmp_path / "v.txt").write_text(content)
    table = torch.nn.Embedding(9, 2)
    before, inputs = table.weight.tolist(), (str(tmp_path / "v.txt"), dictionary_of("abcde"), table, "--vectors")
    if said:
        with pytest.raises(ValueError, match=f"--vectors {tmp_path}/v.txt: {said}"):
            initial_values.load_word_vectors(*inputs)
    else:
        initial_values.load_word_vectors(*inputs)
        assert table.weight.tolist() == [*before[:4], [7, 8], [3, 4], *before[6:]], "the last of a word"


@pytest.mark.parametrize("contexts", [4, 9])
def test_counts_and_mutual_information_are_those_of_the_loops(contexts, monkeypatch):
    monkeypatch.setattr(initial_values, "MOST_CONTEXTS", contexts)
    generator = random.Random(0)
    size, contexts = 7, min(contexts, 7)
    words = [generator.choice([-1, 0, 1, 2, 3, 5, 6]) for _ in range(60)]  # 4 never occurs
    expected = [[0.0] * contexts for _ in range(size)]
    for i, word in enumerate(words):
        for j, context in enumerate(words):
            if 1 <= abs(i - j) <= len(WEIGHTS) and word >= 0 and 0 <= context < contexts:
                expected[word][context] += WEIGHTS[abs(i - j) - 1]
    counts = count_cooccurrences(torch.tensor(words), size)
    torch.testing.assert_close(counts, torch.tensor(expected))
    smoothed = [sum(row[c] for row in expected) ** SMOOTHING for c in range(contexts)]
    for row, found in zip(expected, initial_values.compute_mutual_information(counts).tolist()):
        shares = [smooth / sum(smoothed) for smooth in smoothed]
        value = [max(0.0, math.log(n / sum(row) / share)) if n else 0.0 for n, share in zip(row, shares)]
        assert found == pytest.approx(value, abs=1e-5)


def test_the_same_text_has_the_same_vectors_and_no_draw_of_others_is_changed():
    words = torch.randint(-1, 20, (2000,))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, found = initial_values.compute_word_vectors(words, 20, 8)
    assert torch.equal(torch.rand(3), expected)
    assert found.all() and torch.equal(first, initial_values.compute_word_vectors(words, 20, 8)[0])
