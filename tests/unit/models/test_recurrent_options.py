"""The recurrent family's options: presets, refusals, initial weights."""

import pytest
import torch
from helpers import make_dictionary, make_task
from recurrent import recurrent


def test_what_the_data_lacks_is_refused_in_words():
    task = make_task()
    task.factor_dictionaries = {}
    with pytest.raises(ValueError, match=r'no factor "pos"; DATA has no factors\.json.*--factors'):
        recurrent("feats_lvt2k", task)
    with pytest.raises(ValueError, match=r"--source-factors all: DATA has no factors\.json"):
        recurrent("gru_seq2seq", task, source_factors="all")
    with pytest.raises(ValueError, match='--hierarchical-attention needs "<q>" at the ends of sentences'):
        recurrent("words_lvt2k_hieratt", task)
    task.factor_dictionaries = {"keys": make_dictionary(words=3)}
    with pytest.raises(ValueError, match='torch reserves the name "keys"; rename the factor'):
        recurrent("gru_seq2seq", task, source_factors="all")
    task.tgt_dict = make_dictionary(words=20)
    for changes in ({"pointer": "soft"}, {"share_all_embeddings": True}):
        with pytest.raises(ValueError, match="needs one dictionary"):
            recurrent("gru_seq2seq", task, **changes)


@pytest.mark.parametrize("lines", [["2 16", "w1 ", "w3 "], ["w1 ", "w3 "]])
def test_word_vectors_are_read(tmp_path, lines):
    path = tmp_path / "vectors.txt"
    numbers = [" ".join(str(k / 7 + n) for k in range(16)) for n in range(2)]
    lines = [*lines[:-2], lines[-2] + numbers[0], lines[-1] + numbers[1], "elsewhere " + numbers[0]]
    path.write_text("\n".join(lines) + "\n")
    before = recurrent("gru_seq2seq").encoder.embed_tokens.weight
    model = recurrent("gru_seq2seq", encoder_embed_path=str(path))
    table = model.encoder.embed_tokens.weight
    expected = torch.arange(16) / 7
    torch.testing.assert_close(table[5], expected)
    torch.testing.assert_close(table[7], expected + 1)
    assert torch.equal(table[[4, 6, 8]], before[[4, 6, 8]])


@pytest.mark.parametrize(
    "text,message",
    [
        ("w1 0.5 0.5\n", "line 1 has 2 numbers instead of 16"),
        ("1 16\nw1" + " x" * 16 + "\n", "line 2 is not a word and its numbers"),
        ("w1" + " nan" * 16 + "\n", "line 1 contains a number that is not finite"),
        ("elsewhere" + " 1" * 16 + "\n", "none of the 44 words"),
        ("", "none of the 44 words"),
    ],
)
def test_bad_files_of_word_vectors_are_refused_in_words(tmp_path, text, message):
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="--decoder-embed-path") as error:
        recurrent("gru_seq2seq", decoder_embed_path=str(path))
    assert message in str(error.value)
