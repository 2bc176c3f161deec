"""Propose the settings of the next trial with Optuna, based on the previous trials, a seed and the trial index.

Optuna stores no state between proposals. For each proposal, a new study is created in memory from the previous trials,
and the random numbers depend on the index of the trial. Therefore, an interrupted search continues exactly like an
uninterrupted search.
"""

import itertools
import random
from typing import Any, Dict, Iterator, Optional, Sequence, Set, Tuple

from ...platform.errors import InputError
from .search_space import Parameter, list_allowed_values, make_decoding_options

_ATTEMPTS = 10
"""Maximum number of proposals to request from the sampler for a trial before random settings are tried."""
_RANDOM_ATTEMPTS = 200

Key = Tuple[Tuple[str, Any], ...]


def check_optuna_installed() -> None:
    """Raise InputError if Optuna is not installed. Call this function before starting the search."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise InputError("etads-tune: Optuna is missing: pip install optuna") from None


def make_decoding_options_key(decoding: Dict[str, Any]) -> Key:
    """Return a key that is equal for decoding options that produce the same result."""
    return tuple(sorted(decoding.items()))


def propose_settings(
    space: Sequence[Parameter],
    defaults: Dict[str, Any],
    tried: Sequence[Tuple[Dict[str, Any], float]],
    seed: int,
) -> Optional[Dict[str, Any]]:
    """Propose a combination of parameter values for the next trial that no previous trial has used.

    Args:
        space: parameters to search, with their possible values.
        defaults: default decoding options, which the parameters override.
        tried: parameter values and score of each previous trial. Higher scores are better.
        seed: random seed of the search.

    Returns:
        A dictionary from parameter names to values, or None if all settings have been tried.
    """
    known = {make_decoding_options_key(make_decoding_options(chosen, defaults)) for chosen, _ in tried}
    for attempt in range(_ATTEMPTS):
        chosen = _ask_optuna(space, defaults, tried, seed, attempt)
        if make_decoding_options_key(make_decoding_options(chosen, defaults)) not in known:
            return chosen
    numbers = random.Random(f"{seed} {len(tried)}")
    for _ in range(_RANDOM_ATTEMPTS):
        chosen = {}
        for parameter in space:
            chosen[parameter.name] = numbers.choice(list_allowed_values(parameter, chosen, defaults))
        if make_decoding_options_key(make_decoding_options(chosen, defaults)) not in known:
            return chosen
    return _find_untried_settings(space, defaults, known)  # nearly all settings have been tried, so only a few are left


def _ask_optuna(
    space: Sequence[Parameter],
    defaults: Dict[str, Any],
    tried: Sequence[Tuple[Dict[str, Any], float]],
    seed: int,
    attempt: int,
) -> Dict[str, Any]:
    """Return a proposal from the tree-structured Parzen estimator (Bergstra et al. 2011)."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    numbers = random.Random(f"{seed} {len(tried)} {attempt}")
    sampler = optuna.samplers.TPESampler(seed=numbers.randrange(2**31))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for chosen, score in tried:
        distributions = _make_distributions(optuna, space, chosen, defaults)
        if distributions is not None:
            # In the study, each number is represented by its index in the list of values.
            params = {p.name: p.values.index(chosen[p.name]) if p.is_ordered else chosen[p.name] for p in space}
            study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=score))
    trial = study.ask()
    found: Dict[str, Any] = {}
    for parameter in space:
        values = list_allowed_values(parameter, found, defaults)
        if parameter.is_ordered:
            found[parameter.name] = parameter.values[trial.suggest_int(parameter.name, 0, len(values) - 1)]
        else:
            found[parameter.name] = trial.suggest_categorical(parameter.name, list(values))
    return found


def _make_distributions(
    optuna: Any, space: Sequence[Parameter], chosen: Dict[str, Any], defaults: Dict[str, Any]
) -> Optional[Dict[str, Any]]:
    """Return Optuna's distributions for a trial.

    Returns None if the trial uses the defaults and their values are not in the search space.
    """
    found: Dict[str, Any] = {}
    for parameter in space:
        values = list_allowed_values(parameter, chosen, defaults)
        if chosen[parameter.name] not in values:
            return None
        distributions = optuna.distributions
        found[parameter.name] = (
            distributions.IntDistribution(0, len(values) - 1)
            if parameter.is_ordered
            else distributions.CategoricalDistribution(values)
        )
    return found


def _iterate_settings(space: Sequence[Parameter], defaults: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """Iterate over all combinations of values in the search space."""
    for values in itertools.product(*(parameter.values for parameter in space)):
        chosen = dict(zip((parameter.name for parameter in space), values))
        if all(chosen[p.name] in list_allowed_values(p, chosen, defaults) for p in space):
            yield chosen


def _find_untried_settings(
    space: Sequence[Parameter], defaults: Dict[str, Any], known: Set[Key]
) -> Optional[Dict[str, Any]]:
    for chosen in _iterate_settings(space, defaults):
        if make_decoding_options_key(make_decoding_options(chosen, defaults)) not in known:
            return chosen
    return None
