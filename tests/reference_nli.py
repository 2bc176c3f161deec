"""Oracles of entailment and of its reward, in loops over plain numbers. Beside reference.py."""

import math


def matvec(weight, x, bias=None):
    """W x + b of lists."""
    return [sum(w * v for w, v in zip(row, x)) + (bias[r] if bias else 0.0) for r, row in enumerate(weight)]


def two_layers(layers, x):
    """relu(W_2 relu(W_1 x + b_1) + b_2); layers: pairs of W and b."""
    for weight, bias in layers:
        x = [max(value, 0.0) for value in matvec(weight, x, bias)]
    return x


def softmax(values):
    exponents = [math.exp(value - max(values)) for value in values]
    return [value / sum(exponents) for value in exponents]


def mean_of(weights, vectors):
    return [sum(w * vector[k] for w, vector in zip(weights, vectors)) for k in range(len(vectors[0]))]


def decomposable_attention(p, premise, hypothesis):
    """Class probabilities of one pair (Parikh et al. 2016, equations 1 to 5).

    Args:
        p: "E" word vectors by id, "P" the projection, "F", "G", "H" pairs of W and b, "W" and "b" of the last layer.
        premise, hypothesis: ids, without padding.
    """
    a = [matvec(p["P"], p["E"][word]) for word in premise]
    b = [matvec(p["P"], p["E"][word]) for word in hypothesis]
    f_a, f_b = ([two_layers(p["F"], x) for x in words] for words in (a, b))
    e = [[sum(x * y for x, y in zip(f_a[i], f_b[j])) for j in range(len(b))] for i in range(len(a))]
    beta = [mean_of(softmax(e[i]), b) for i in range(len(a))]
    alpha = [mean_of(softmax([e[i][j] for i in range(len(a))]), a) for j in range(len(b))]
    v_1, v_2 = [0.0] * len(a[0]), [0.0] * len(a[0])
    for x, aligned in zip(a, beta):
        v_1 = [total + value for total, value in zip(v_1, two_layers(p["G"], x + aligned))]
    for x, aligned in zip(b, alpha):
        v_2 = [total + value for total, value in zip(v_2, two_layers(p["G"], x + aligned))]
    return softmax(matvec(p["W"], two_layers(p["H"], v_1 + v_2), p["b"]))
