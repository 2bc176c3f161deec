"""One dictionary with a bound for each side: words that the encoder knows and that can only be copied."""

import math

import pytest
import reference
import torch
from helpers import EOS, PAD, make_dictionary, make_model, make_task
from recurrent import recurrent
from test_criterions import make_sample

from fairseq_etads.training.losses import SummarizationNLL
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.vocabulary.dictionary import count_known_words

KNOWN, GENERATED, UNK = 44, 20, 3
"""Words that the documents' side knows, and those that can be generated; words from KNOWN on are in the tail."""
DOCUMENTS = [[5, 46, 30, 7, 45, 46, 30], [21, 9], [47, 43, 5, 47, 20], [19]]
SUMMARIES = [[30, 5, 45], [21, 22], [20, 47, 43], [19, 30]]
MODELS = [
    # with one table of words for each side or for both; architecture, its options, whether it is trained
    ("etads", {"share_all_embeddings": False}, False),
    ("etads", {"share_all_embeddings": True}, False),
    ("gru_seq2seq", {"share_decoder_input_output_embed": True}, False),
    ("gru_seq2seq", {"share_all_embeddings": True}, False),
    ("gru_seq2seq", {"large_vocabulary_trick": 9}, False),
    ("gru_seq2seq", {"large_vocabulary_trick": 9}, True),
]


@pytest.mark.parametrize("pointer", ["soft", "switch"])
@pytest.mark.parametrize("arch, options, training", MODELS)
def test_losses_are_those_of_a_loop(arch, options, training, pointer):
    """The loss of the mixture or supervised switch is over words that can be generated and the document's others. With
    the trick, documents of a batch share a list in training, and have their own in evaluation.
    """
    task = make_task(tail=9, target_words=GENERATED)
    model = (recurrent if arch == "gru_seq2seq" else make_model)(arch, task, pointer=pointer, **options)
    model.train(training)
    sample = make_sample(DOCUMENTS, SUMMARIES)
    loss, _, logs = SummarizationNLL(task, label_smoothing=0.1, switch_loss=2.0)(model, sample)
    with torch.no_grad():
        logits, extra = model(**sample["net_input"])
    head, trick = extra["output"].pointer, options.get("large_vocabulary_trick")
    total, pointed = 0.0, 0
    for row, (document, summary) in enumerate(zip(DOCUMENTS, SUMMARIES)):
        extended, own = reference.extended_ids([*document, EOS], GENERATED)
        listed = columns = list(range(GENERATED))
        if trick:
            read = [[*text, EOS] for text in (DOCUMENTS if training else [document])]
            listed = reference.candidates(read, trick, GENERATED, 4)
            columns = extra["output"].vocabulary.candidates.words.tolist()
        for step, word in enumerate([*summary, EOS]):
            vocabulary = torch.zeros(GENERATED, dtype=torch.float64)
            chosen = [columns.index(number) for number in listed]
            vocabulary[listed] = logits[row, step, chosen].double().softmax(0)
            attention = head.log_copy[row, step].double().exp()
            p_gen = head.gate[row, step].double().sigmoid().item()
            number = GENERATED + own.index(word) if word in own else word if word in listed else UNK
            produced = [other for other in listed if other not in (0, PAD)]
            if pointer == "soft":
                mixture = reference.pointer_mixture(vocabulary, attention, p_gen, extended, GENERATED + len(own))
                produced += [GENERATED + slot for slot in range(len(own))]
                word_loss, switch_loss = -math.log(mixture[number]), 0.0
            else:
                mixture, chance = vocabulary, 1 - p_gen if number >= GENERATED else p_gen
                word_loss = reference.switch_loss(vocabulary, attention, p_gen, extended, number) + math.log(chance)
                switch_loss = -math.log(chance)
                pointed += number >= GENERATED
            smooth = -sum(math.log(mixture[other]) for other in produced) / len(produced)
            if pointer == "switch" and number >= GENERATED:
                smooth = word_loss
            total += 0.9 * word_loss + 0.1 * smooth + 2.0 * switch_loss
    assert loss.item() == pytest.approx(total, rel=1e-4)
    if pointer == "switch":
        assert logs["copied"].item() == pointed == 6, "the switch is taught to point at words between the bounds, too"


def write_dictionary(folder, side, bound):
    dictionary = make_dictionary(tail=5)
    dictionary.count[bound:] = [0] * (len(dictionary) - bound)
    dictionary.save(str(folder / f"dict.{side}.txt"))


def setup(folder):
    cfg = SummarizationConfig(data=str(folder), source_lang="source", target_lang="target")
    return SummarizationTask.setup_task(cfg)


def test_the_files_say_which_words_each_side_knows_and_a_checkpoint_remembers_it(tmp_path):
    """A data folder's two dictionaries: the second knows fewer of the same words."""
    write_dictionary(tmp_path, "source", KNOWN)
    write_dictionary(tmp_path, "target", GENERATED)
    task = setup(tmp_path)
    assert [count_known_words(d) for d in (task.source_dictionary, task.target_dictionary)] == [KNOWN, GENERATED]
    assert task.source_dictionary == task.target_dictionary, "a pointer needs one dictionary"
    new = task.source_dictionary.encode_line("new", add_if_not_exist=False)[0]
    assert task.target_dictionary.string(torch.tensor([new])) == "new", "typed words can be copied"
    recurrent("gru_seq2seq", task, pointer="switch")
    state = setup(tmp_path).state_dict()
    setup(tmp_path).load_state_dict(state)
    write_dictionary(tmp_path, "target", GENERATED + 1)
    with pytest.raises(ValueError, match=r"the target dictionary in DATA .* is not the one"):
        setup(tmp_path).load_state_dict(state)
    write_dictionary(tmp_path, "source", GENERATED)
    write_dictionary(tmp_path, "target", KNOWN)
    with pytest.raises(ValueError, match="were --srcdict and --tgtdict of fairseq-preprocess swapped"):
        setup(tmp_path)
