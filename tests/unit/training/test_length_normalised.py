"""--length-normalised: every summary counts the same, however long it is."""

import pytest
from test_criterions import DOCUMENTS, SUMMARIES, build, criterion, make_sample


@pytest.mark.parametrize("pointer", ["none", "soft", "switch"])
def test_a_length_normalised_loss_is_the_mean_over_summaries_of_their_own_means(pointer):
    """This includes the coverage loss and padding on either side. A mean over all words would be another number."""
    options = {"label_smoothing": 0.1, "coverage_loss": 2.0}
    model, ours = build(pointer, length_normalised=True, **options)
    model, by_word = model.train(), criterion(ours.task, **options)
    means = []
    summaries = [*SUMMARIES[:3], []]  # an empty summary has one word, the end symbol
    for document, summary in zip(DOCUMENTS, summaries):
        loss, words, _ = by_word(model, make_sample([document], [summary]))
        means.append(float(loss) / words)
    for left in (False, True):
        loss, size, logs = ours(model, make_sample(summaries=summaries, left=left))
        assert size == logs["sample_size"] == logs["nsentences"] == len(DOCUMENTS)
        assert float(loss) / size == pytest.approx(sum(means) / len(means), rel=1e-5)
        plain, words, plain_logs = by_word(model, make_sample(summaries=summaries, left=left))
        assert abs(float(plain) / words - float(loss) / size) > 1e-3
        for name in ("nll_loss", "coverage_loss", "ntokens"):  # figures are still per word
            assert float(logs[name]) == pytest.approx(float(plain_logs[name]), rel=1e-5)
