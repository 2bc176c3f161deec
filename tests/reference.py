"""Loop-written oracles, one per equation, in float64. Slow and literal on purpose; the only copy.

Each works on one document without padding and one head, with plain Python loops over positions, so that it can be read
beside the paper.
"""

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor


def focal_bias(center: Tensor, scope: Tensor, positions: Tensor) -> Tensor:
    """ETADS, equation 7. center, scope (T,), positions (S,) -> (T, S)."""
    bias = torch.zeros(len(center), len(positions), dtype=torch.float64)
    for i in range(len(center)):
        for j in range(len(positions)):
            distance = positions[j].item() - center[i].item()
            bias[i, j] = -(distance**2) / (scope[i].item() ** 2 / 2)
    return bias


def softmax_row(scores: List[Tensor]) -> List[Tensor]:
    largest = max(float(score) for score in scores)
    exponentials = [torch.exp(score - largest) for score in scores]
    total = sum(exponentials)
    return [value / total for value in exponentials]


def focus_attention(q: Tensor, k: Tensor, v: Tensor, center: Tensor, scope: Tensor, strength: Any = 1.0) -> Tensor:
    """ETADS, equation 8, the bias times a number. q, k, v (m, D), center, scope (m,), differentiable -> (m, D)."""
    m, width = q.shape
    rows = []
    for i in range(m):
        scores = []
        for j in range(m):
            energy = (q[i] * k[j]).sum() / math.sqrt(width)
            bias = -((j - center[i]) ** 2) / (scope[i] ** 2 / 2)
            scores.append(energy + strength * bias)
        weights = softmax_row(scores)
        rows.append(sum(weight * v[j] for j, weight in enumerate(weights)))
    return torch.stack(rows)


def focal_network(q: Tensor, w_p: Tensor, w_g: Tensor, u_c: Tensor, u_d: Tensor) -> Tuple[Tensor, Tensor]:
    """ETADS, equations 5 and 6. q (m, d_m), W_p, W_g (d_m, d_m) applied as W x, U_c, U_d (H, D) -> mu, sigma (H, m)."""
    m, _ = q.shape
    heads, width = u_c.shape
    mean = sum(q[i] for i in range(m)) / m
    center, scope = torch.zeros(heads, m, dtype=q.dtype), torch.zeros(heads, m, dtype=q.dtype)
    for i in range(m):
        u = torch.tanh(w_p @ q[i] + w_g @ mean)
        for h in range(heads):
            part = u[h * width : (h + 1) * width]
            center[h, i] = m * torch.sigmoid((part * u_c[h]).sum())
            scope[h, i] = m * torch.sigmoid((part * u_d[h]).sum())
    return center, scope


def relative_focal_network(
    q: Tensor, w_p: Tensor, w_g: Tensor, u_c: Tensor, u_d: Tensor, offsets: Tensor, scopes: Sequence[int]
) -> Tuple[Tensor, Tensor]:
    """As focal_network, with centers beside the query's own position: offsets o (H,), initial scopes (H,), 0: m / 2.

    mu_i = i + m tanh((o_h + <u, U_c>) / m). sigma is m times the sigmoid whose argument is <u, U_d>, and what gives N
    tokens (at most half of the document) where <u, U_d> is 0.
    """
    m, _ = q.shape
    heads, width = u_c.shape
    mean = sum(q[i] for i in range(m)) / m
    center, scope = torch.zeros(heads, m, dtype=q.dtype), torch.zeros(heads, m, dtype=q.dtype)
    for i in range(m):
        u = torch.tanh(w_p @ q[i] + w_g @ mean)
        for h in range(heads):
            part = u[h * width : (h + 1) * width]
            center[h, i] = i + m * torch.tanh((offsets[h] + (part * u_c[h]).sum()) / m)
            share = min(scopes[h] / m, 0.5) if scopes[h] else 0.5
            argument = (part * u_d[h]).sum() + math.log(share / (1 - share))
            scope[h, i] = m / (1 + torch.exp(-argument))
    return center, scope


def saliency_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate_q: Optional[Tensor],
    gate_k: Optional[Tensor],
    form: str = "sigmoid",
    level: Any = 0.0,
) -> Tuple[Tensor, Tensor]:
    """ETADS, equations 9 and 10, and other forms of the gate; level is added to its logits.

    q, gate_q (T, D), k, v, gate_k (S, D) -> (T, D), weights (T, S): the softmax, or "normalised": the gated ones.
    """
    rows, all_weights = [], []
    for i in range(len(q)):
        weights = softmax_row([(q[i] * k[j]).sum() / math.sqrt(q.shape[1]) for j in range(len(k))])
        gated = []
        for j in range(len(k)):
            gate = 1.0 if gate_q is None else torch.sigmoid((gate_q[i] * gate_k[j]).sum() + level)
            gated.append((2 * gate if form == "open" else gate) * weights[j])
        if form == "normalised":
            weights = gated = [weight / sum(gated) for weight in gated]
        rows.append(sum(weight * v[j] for j, weight in enumerate(gated)))
        all_weights.append(torch.stack(weights))
    return torch.stack(rows), torch.stack(all_weights)


def output_distribution(state: Tensor, w_o: Tensor, b_o: Optional[Tensor] = None) -> List[float]:
    """ETADS, equation 4: softmax(W_o s + b_o). state (d_m,), W_o (V, d_m), b_o (V,) or None -> V probabilities."""
    scores = []
    for word in range(len(w_o)):
        score = sum(w_o[word, i].item() * state[i].item() for i in range(len(state)))
        scores.append(torch.tensor(score + (0.0 if b_o is None else b_o[word].item()), dtype=torch.float64))
    return [float(value) for value in softmax_row(scores)]


def length_penalty(length: int, alpha: float, beta: float, kind: str) -> float:
    """Wu et al. 2016, equation 14, and fairseq's."""
    return float(length) ** alpha if kind == "avg" else ((beta + length) / (beta + 1)) ** alpha


def coverage_penalty(coverage: Sequence[float], weight: float, kind: str) -> float:
    """One hypothesis; coverage of the real source tokens."""
    total = 0.0
    for c in coverage:
        total += max(c, 1.0) - 1.0 if kind == "summary" else -math.log(max(min(c, 1.0), 1.2e-38))
    return weight * total


def repeats(words: Sequence[int], size: int) -> bool:
    """Whether a text has an n-gram twice."""
    grams = [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
    return len(grams) > len(set(grams))


def beam_search(
    predict: Callable[[List[int]], Any],
    beam: int,
    longest: int,
    eos: int,
    pad: int,
    shortest: int = 1,
    alpha: float = 1.0,
    beta: float = 5.0,
    length_kind: str = "avg",
    weight: float = 0.0,
    coverage_kind: str = "summary",
    stepwise: bool = False,
    block: int = 0,
    history: Optional[List[Tuple[List[float], List[Tuple[float, float]]]]] = None,
) -> List[Tuple[List[int], float, float]]:
    """Beam search over one document that never stops early: (tokens, log P, score), best first.

    ``predict(words)`` gives the log-probabilities of the next token and the attention to each source token, and perhaps
    a set of tokens that the hypothesis may have only if it may have no others. In ``history`` each step leaves the
    scores of what has ended, and log P and coverage cost of what has not.
    """
    living: List[Tuple[List[int], float, List[float]]] = [([], 0.0, [])]
    finished = []
    for step in range(longest + 1):
        candidates = []
        for words, log_prob, coverage in living:
            log_probs, attention, *rest = predict(words)
            coverage = [a + b for a, b in zip(coverage or [0.0] * len(attention), attention)]
            cost = coverage_penalty(coverage, weight, coverage_kind) if weight else 0.0
            own = []
            for token, value in enumerate(log_probs):
                if token == pad or (token == eos and step < shortest) or (token != eos and step == longest):
                    continue
                if value == -math.inf:
                    continue
                if block and token != eos and repeats([*words, token], block) and not repeats(words, block):
                    continue
                rank = log_prob + value - (cost if stepwise else 0.0)
                own.append((rank, words, token, log_prob + value, coverage, cost))
            last_resort = rest[0] if rest else set()
            candidates += [c for c in own if c[2] not in last_resort] or own
        candidates.sort(key=lambda candidate: -candidate[0])
        living = []
        for place, (_, words, token, log_prob, coverage, cost) in enumerate(candidates[: 2 * beam]):
            if token == eos and place < beam:
                score = log_prob / length_penalty(step + 1, alpha, beta, length_kind) - cost
                finished.append(([*words, eos], log_prob, score))
            elif token != eos and len(living) < beam:
                living.append(([*words, token], log_prob, coverage))
        if history is not None:
            costs = [coverage_penalty(coverage, weight, coverage_kind) if weight else 0.0 for _, _, coverage in living]
            unfinished = [(log_prob, cost) for (_, log_prob, _), cost in zip(living, costs)]
            history.append(([score for _, _, score in finished], unfinished))
    return sorted(finished, key=lambda hypothesis: -hypothesis[2])


def best_possible_score(
    log_prob: float,
    cost: float,
    lengths: Sequence[int],
    alpha: float,
    beta: float,
    length_kind: str,
    weight: float,
    coverage_kind: str,
    source_length: int,
) -> float:
    """The bound of docs/decoding.md: what an unfinished hypothesis can score that may end with one of ``lengths``."""
    best = max(log_prob / length_penalty(length, alpha, beta, length_kind) for length in lengths)
    if coverage_kind == "summary":
        return best - cost
    spent_evenly = [max(lengths) / source_length] * source_length
    return best - coverage_penalty(spent_evenly, weight, "wu")


def extended_ids(document: List[int], known: int) -> Tuple[List[int], List[int]]:
    """A document's ids with its own words numbered from ``known`` on by first occurrence, and those words."""
    own: List[int] = []
    extended = []
    for word in document:
        if word >= known and word not in own:
            own.append(word)
        extended.append(known + own.index(word) if word >= known else word)
    return extended, own


def pointer_mixture(vocabulary: Tensor, attention: Tensor, p_gen: float, extended: List[int], size: int) -> List[float]:
    """Aggregation Transformer, equations 13 and 14, for one summary word.

    vocabulary (V,): P_vocab. attention (S,): copy attention. extended: the document in extended ids. -> P of each of
    the ``size`` words.
    """
    distribution = []
    for word in range(size):
        copied = 0.0
        for position, source_word in enumerate(extended):
            if source_word == word:
                copied += attention[position].item()
        generated = vocabulary[word].item() if word < len(vocabulary) else 0.0
        distribution.append(p_gen * generated + (1 - p_gen) * copied)
    return distribution


def switch_decision(vocabulary: Tensor, attention: Tensor, p_gen: float, extended: List[int], size: int) -> List[float]:
    """Nallapati et al., section 2.3, at test time: P of each of the ``size`` words after the likelier of generating and
    pointing was chosen."""
    return pointer_mixture(vocabulary, attention, 1.0 if p_gen >= 0.5 else 0.0, extended, size)


def copy_history(document: List[int], written: List[int], unk: int) -> List[Tuple[bool, bool, bool]]:
    """For each position of a document: is the word left of it the last one written, are the two left of it the last two
    in this order, and has it been written? Lists of ids; the unknown word equals nothing."""
    rows = []
    for position, word in enumerate(document):
        left, summary = document[:position], list(written)
        one = len(left) >= 1 and len(summary) >= 1 and left[-1] == summary[-1] != unk
        two = len(left) >= 2 and len(summary) >= 2 and one and left[-2] == summary[-2] != unk
        rows.append((one, two, word != unk and word in summary))
    return rows


def switch_loss(vocabulary: Tensor, attention: Tensor, p_gen: float, extended: List[int], word: int) -> float:
    """Nallapati et al., section 2.3, for one summary word: points exactly if it is not in the vocabulary."""
    if word < len(vocabulary):
        return -math.log(p_gen) - math.log(vocabulary[word].item())
    for position, source_word in enumerate(extended):
        if source_word == word:
            return -math.log(1 - p_gen) - math.log(attention[position].item())
    raise ValueError("such a word is not in the document")


def coverage_loss(attention: Tensor) -> List[float]:
    """See et al. 2017, equation 12. attention (T, S) -> one loss a step."""
    steps, length = attention.shape
    losses = []
    for t in range(steps):
        loss = 0.0
        for j in range(length):
            covered = sum(attention[earlier, j].item() for earlier in range(t))
            loss += min(attention[t, j].item(), covered)
        losses.append(loss)
    return losses


def additive_scores(
    query: Tensor, keys: Tensor, weight: Tensor, coverage: Optional[Tensor] = None, w_c: Optional[Tensor] = None
) -> Tensor:
    """Bahdanau et al. 2014; with coverage See et al. 2017, equation 11. query (T, A), keys (S, A) -> (T, S)."""
    scores = torch.zeros(len(query), len(keys), dtype=query.dtype)
    for t in range(len(query)):
        for j in range(len(keys)):
            hidden = query[t] + keys[j]
            if coverage is not None and w_c is not None:
                hidden = hidden + coverage[t, j] * w_c
            scores[t, j] = (weight * torch.tanh(hidden)).sum()
    return scores


def temporal_attention(scores: Tensor) -> Tensor:
    """Nallapati et al., equation 1, with exponentials as they are. scores (T, S) -> (T, S)."""
    steps, length = scores.shape
    rows = []
    for t in range(steps):
        shares = []
        for j in range(length):
            beta = sum(math.exp(scores[k, j].item()) for k in range(t)) if t else 1.0
            shares.append(math.exp(scores[t, j].item()) / beta)
        rows.append([share / sum(shares) for share in shares])
    return torch.tensor(rows, dtype=torch.float64)


def hierarchical_attention(word: Tensor, sentence: Tensor, sentence_ids: List[int]) -> Tensor:
    """Nallapati et al., section 2.4. word (T, S), sentence (T, N) -> (T, S)."""
    rows = []
    for t in range(len(word)):
        products = [word[t, j].item() * sentence[t, number].item() for j, number in enumerate(sentence_ids)]
        rows.append([product / sum(products) for product in products])
    return torch.tensor(rows, dtype=torch.float64)


def candidates(texts: List[List[int]], limit: int, size: int, specials: int) -> List[int]:
    """Nallapati et al., section 2.1: the texts' words, then the most frequent ones until there are ``limit``."""
    chosen = set(range(specials)) | {word for text in texts for word in text if word < size}
    for word in range(size):
        if len(chosen) >= limit:
            break
        chosen.add(word)
    return sorted(chosen)


def gru_step(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """A gated recurrent unit (Cho et al. 2014) with torch's order of gates: reset, update, new. x (D,), h (H,)."""
    size = len(h)
    result = torch.zeros_like(h)
    for i in range(size):
        gates = []
        for row in (i, size + i):
            gates.append(torch.sigmoid(w_ih[row] @ x + b_ih[row] + w_hh[row] @ h + b_hh[row]))
        reset, update = gates
        row = 2 * size + i
        new = torch.tanh(w_ih[row] @ x + b_ih[row] + reset * (w_hh[row] @ h + b_hh[row]))
        result[i] = (1 - update) * new + update * h[i]
    return result


def multi_head(queries: Tensor, memory: Tensor, weights: Sequence[Tuple[Tensor, Tensor]], heads: int) -> Tensor:
    """MultiHead(Q, K=V): queries (T, d), memory (S, d), the (W, b) of q, k, v and output, as W x + b -> (T, d)."""
    (w_q, b_q), (w_k, b_k), (w_v, b_v), (w_o, b_o) = weights
    width = queries.shape[1] // heads
    rows = []
    for query in queries:
        parts = []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            q = (w_q @ query + b_q)[part]
            keys = [(w_k @ state + b_k)[part] for state in memory]
            values = [(w_v @ state + b_v)[part] for state in memory]
            attention = softmax_row([(q * key).sum() / math.sqrt(width) for key in keys])
            parts.append(sum(weight * value for weight, value in zip(attention, values)))
        rows.append(w_o @ torch.cat(parts) + b_o)
    return torch.stack(rows)


def aggregate(
    kind: str,
    states: Sequence[Tensor],
    layers: int,
    attentions: Sequence[Sequence[Tuple[Tensor, Tensor]]],
    heads: int,
    projection: Optional[Tuple[Tensor, Tensor]] = None,
) -> Tensor:
    """Aggregation Transformer, equations 15 to 17. states: h^1 ... h^N, each (m, d), of one document -> (m, d)."""
    last, count = states[-1], len(states)
    if kind == "add":
        total = last
        for number in range(count - layers, count):  # N-L ... N-1, counted from 1
            total = total + states[number - 1]
        return total
    if kind == "proj":
        assert projection is not None
        rows = []
        for j in range(len(last)):
            joined = torch.cat([states[number - 1][j] for number in range(count - layers, count)])
            rows.append(projection[0] @ joined + projection[1])
        return multi_head(torch.stack(rows), last, attentions[0], heads)
    history = states[count - layers - 1]
    for step, number in enumerate(range(count - layers + 1, count)):
        history = multi_head(history, states[number - 1], attentions[step], heads)
    return multi_head(history, last, attentions[-1], heads)


def encoder_gate(states: Tensor, w_g: Tensor, bias: Tensor) -> Tensor:
    """Gated ES-Trans, equations 4 and 5. states (m, d) of one document, W_g (d, 2 d) -> (m, d)."""
    rows = []
    for state in states:
        gate = torch.sigmoid(w_g @ torch.cat([state, states[-1]]) + bias)
        rows.append(gate * state)
    return torch.stack(rows)
