"""Loop-written oracles, at most one per equation, and a table of all equations.

An oracle computes in float64 on one document without padding and one head, with plain Python loops over positions, so
that it can be read next to the paper. It is deliberately slow and literal.

:data:`EQUATIONS` lists every equation of the papers with its oracle, the function that computes it and the test that
compares the two. A new equation gets a row there. :mod:`reference.parts` has steps that several oracles share.
"""

# ruff: noqa: F401  # tests call all oracles as reference.NAME

from typing import Dict, List, NamedTuple

from .abs import extractive_features, next_word, released_features
from .attention import (
    additive_scores,
    focal_bias,
    focal_network,
    focus_attention,
    hierarchical_attention,
    multi_head,
    relative_focal_network,
    saliency_attention,
    sinusoidal_position,
    temporal_attention,
)
from .consensus import consensus
from .encoder import aggregate, encoder_gate
from .entailment import decomposable_attention, edit_distances, entail_s2s, raml_weights, selective_gate
from .explicit_selection import explicit_selection, selection_loss
from .losses import coverage_loss, switch_loss
from .neighbours import neighbour_inputs
from .optimisers import muon, nearest_orthogonal, polynomial_orthogonal
from .output import candidates, copy_history, output_distribution, pointer_mixture, switch_decision
from .parts import extended_ids, is_run, lcs, sentences_of, softmax_row
from .pointer_generator import closed_book, pointer_generator
from .readability import expected_rouge, readability
from .recurrent import gru_step, lstm_both_ways, lstm_states, lstm_step
from .rewriting import best_combination, pointer_scores, sentence_rewriter, sentence_vector
from .search import beam_search, best_possible_score, coverage_penalty, length_penalty, repeats
from .selection import (
    bottom_up,
    combined_attention,
    cosines,
    inconsistency_loss,
    label_copied_words,
    match_sentences,
    novel_sentences,
    select_by_greedy_recall,
    sentence_extractor,
)


class Equation(NamedTuple):
    """A row of the table."""

    number: str
    """Number in the paper, or the section or page that defines the equation."""
    oracle: str
    """Function of this package, or the dotted name of a peer; empty if the test itself computes the result."""
    function: str
    """Function or class that computes the equation, below ``fairseq_etads`` or with another package's name."""
    test: str
    """Test that compares them, below ``tests/unit``."""


EQUATIONS: Dict[str, List[Equation]] = {
    "ETADS, You et al. 2019": [
        Equation(
            "1",
            "saliency_attention",
            "attention.saliency_attention",
            "attention/test_attention_options.py::test_every_gate_and_its_gradients_match_the_oracle",
        ),
        Equation(
            "2",
            "multi_head",
            "layers.aggregation.LayerAggregation",
            "layers/test_aggregation.py::test_aggregation_against_the_oracle",
        ),
        Equation(
            "3",
            "fairseq.models.transformer.TransformerModel",
            "models.transformer.SummarizationTransformer",
            "models/test_transformer.py::test_with_both_mechanisms_off_it_is_fairseqs_transformer",
        ),
        Equation(
            "4",
            "output_distribution",
            "models.transformer.SummarizationTransformerDecoder",
            "training/test_output_bias.py::test_the_distribution_is_that_of_the_equation",
        ),
        Equation(
            "5, 6",
            "focal_network",
            "layers.encoder_attention.FocalNetwork",
            "attention/test_attention.py::test_focal_network_is_equations_5_and_6",
        ),
        Equation(
            "7", "focal_bias", "attention.focal_bias", "attention/test_attention.py::test_focal_bias_is_equation_7"
        ),
        Equation(
            "8",
            "focus_attention",
            "attention.focus_attention",
            "attention/test_attention.py::test_focus_attention_and_gradients_match_the_oracle",
        ),
        Equation(
            "9, 10",
            "saliency_attention",
            "attention.saliency_attention",
            "attention/test_attention.py::test_saliency_attention_and_gradients_match_the_oracle",
        ),
        Equation(
            "11, 12",
            "fairseq.criterions.cross_entropy.CrossEntropyCriterion",
            "training.losses.SummarizationNLL",
            "training/test_criterions.py::test_without_options_it_is_fairseqs_cross_entropy",
        ),
        Equation(
            "docs/etads.md, other forms of 5 and 6",
            "relative_focal_network",
            "layers.encoder_attention.FocalNetwork",
            "attention/test_attention_options.py::test_relative_centers_and_initial_scopes_are_those_of_the_oracle",
        ),
        Equation(
            "docs/etads.md, other forms of 8",
            "focus_attention",
            "attention.focus_attention",
            "attention/test_attention_options.py::test_focus_attention_with_a_strength_and_its_gradients_match_the_oracle",
        ),
        Equation(
            "docs/etads.md, other forms of 10",
            "saliency_attention",
            "attention.saliency_attention",
            "attention/test_attention_options.py::test_every_gate_and_its_gradients_match_the_oracle",
        ),
        Equation(
            "docs/etads.md, neighbours",
            "neighbour_inputs",
            "models.transformer.NeighbourProjections",
            "models/test_neighbours.py::test_inputs_and_gradients_are_those_of_the_loop",
        ),
    ],
    "Aggregation Transformer, Liao et al.": [
        Equation(
            "1",
            "additive_scores",
            "layers.additive.AdditiveAttention",
            "layers/test_additive.py::test_scores_are_those_of_the_loops",
        ),
        Equation(
            "2, 3, 7 to 10",
            "fairseq.models.transformer.TransformerModel",
            "models.transformer.SummarizationTransformer",
            "models/test_transformer.py::test_with_both_mechanisms_off_it_is_fairseqs_transformer",
        ),
        Equation(
            "4",
            "multi_head",
            "layers.aggregation.LayerAggregation",
            "layers/test_aggregation.py::test_aggregation_against_the_oracle",
        ),
        Equation(
            "5, 6",
            "sinusoidal_position",
            "models.transformer.SummarizationTransformerEncoder",
            "models/test_positions.py::test_positions_that_are_not_learned_are_those_of_the_equations",
        ),
        Equation(
            "11, 13, 14",
            "pointer_mixture",
            "layers.pointer.PointerOutput",
            "layers/test_pointer.py::test_the_mixture_equals_a_loop",
        ),
        Equation(
            "12",
            "torch.softmax",
            "layers.pointer.Pointer",
            "layers/test_pointer.py::test_copy_attention_is_the_query_on_the_encoders_words",
        ),
        Equation(
            "15 to 17",
            "aggregate",
            "layers.aggregation.LayerAggregation",
            "layers/test_aggregation.py::test_aggregation_against_the_oracle",
        ),
        Equation(
            "18, 19",
            "fairseq.criterions.cross_entropy.CrossEntropyCriterion",
            "training.losses.SummarizationNLL",
            "training/test_criterions.py::test_without_options_it_is_fairseqs_cross_entropy",
        ),
    ],
    "Gated ES-Trans": [
        Equation(
            "1 to 3",
            "fairseq.models.transformer.TransformerModel",
            "models.transformer.SummarizationTransformer",
            "models/test_transformer.py::test_with_both_mechanisms_off_it_is_fairseqs_transformer",
        ),
        Equation(
            "section 3.4, shared layers",
            "fairseq_etads.models.transformer.SummarizationTransformer",
            "layers.parameter_sharing.share_sublayers",
            "layers/test_sharing.py::test_it_is_the_unshared_model_with_equal_weights",
        ),
        Equation(
            "4, 5",
            "encoder_gate",
            "layers.aggregation.EncoderGate",
            "layers/test_aggregation.py::test_the_gate_against_the_oracle",
        ),
        Equation(
            "6",
            "output_distribution",
            "models.transformer.SummarizationTransformerDecoder",
            "training/test_output_bias.py::test_the_distribution_is_that_of_the_equation",
        ),
    ],
    "Nallapati et al. 2016": [
        Equation(
            "1",
            "temporal_attention",
            "attention.temporal_attention",
            "attention/test_recurrent_attention.py::test_temporal_attention",
        ),
        Equation(
            "section 2, the encoder",
            "gru_step",
            "layers.recurrent.BidirectionalGRU",
            "models/test_recurrent.py::test_the_encoder_is_its_gru_in_both_directions",
        ),
        Equation(
            "section 2, the decoder",
            "gru_step",
            "models.rnn_decoder.RecurrentDecoder",
            "models/test_recurrent.py::test_the_decoder_is_the_loop",
        ),
        Equation(
            "section 2.1",
            "candidates",
            "vocabulary.candidates.CandidateWords",
            "vocabulary/test_candidates.py::test_a_shared_list_is_that_of_the_loop",
        ),
        Equation(
            "section 2.2, bins",
            "",
            "etads_preprocess.factors.compute_idf_bin",
            "preprocess/test_factors.py::test_bins_of_idf_are_of_equal_width",
        ),
        Equation(
            "section 2.3, training",
            "switch_loss",
            "layers.pointer.PointerOutput",
            "layers/test_pointer.py::test_the_supervised_switch_equals_a_loop",
        ),
        Equation(
            "section 2.3, test time",
            "switch_decision",
            "layers.pointer.PointerOutput",
            "search/test_switch_search.py::test_the_search_equals_a_slow_one",
        ),
        Equation(
            "section 2.4",
            "hierarchical_attention",
            "attention.hierarchical_attention",
            "attention/test_recurrent_attention.py::test_hierarchical_attention",
        ),
    ],
    "Search and its penalties, Wu et al. 2016": [
        Equation(
            "Wu et al., 14: length",
            "length_penalty",
            "search.hypotheses.length_penalty",
            "search/test_penalties.py::test_length_penalty",
        ),
        Equation(
            "Wu et al., 14: coverage",
            "coverage_penalty",
            "search.hypotheses.coverage_penalty",
            "search/test_penalties.py::test_coverage_penalty_ignores_padding",
        ),
        Equation(
            "beam search",
            "beam_search",
            "generation.SummaryGenerator",
            "search/test_generation_penalties.py::test_penalties_against_the_slow_search",
        ),
        Equation(
            "docs/decoding.md, the bound of an unfinished hypothesis",
            "best_possible_score",
            "search.hypotheses.HypothesisScorer",
            "search/test_stopping.py::test_a_document_ends_as_soon_as_the_rule_lets_it",
        ),
        Equation(
            "Paulus et al. 2017, section 2.5: no repeated n-gram",
            "repeats",
            "search.search_rules.NGramBlocker",
            "search/test_blocking.py::test_blocking_leaves_no_repeats",
        ),
        Equation(
            "docs/pointer.md, copies that continue",
            "copy_history",
            "layers.continuation.CopyHistory",
            "layers/test_continuation.py::test_the_features_are_those_of_the_loop",
        ),
        Equation(
            "docs/decoding.md, consensus",
            "consensus",
            "search.content.reranking.compute_consensus",
            "search/test_consensus.py::test_the_consensus_is_the_mean_over_the_others",
        ),
        Equation(
            "docs/long.md, expected ROUGE",
            "expected_rouge",
            "search.content.sentence_choosing.choose_sentence_set",
            "search/test_content_choice.py::test_the_chosen_set_is_the_best_of_all",
        ),
        Equation(
            "docs/long.md, readability",
            "readability",
            "search.content.readability.Readability",
            "search/test_content_choice.py::test_readability_is_that_of_the_loops",
        ),
    ],
    "Pointer-generator, See et al. 2017": [
        Equation(
            "1 to 3, 8, 9",
            "pointer_generator",
            "models.rnn.RecurrentModel",
            "models/test_pointer_generator.py::test_it_is_the_papers_equations",
        ),
        Equation(
            "11",
            "additive_scores",
            "layers.additive.AdditiveAttention",
            "layers/test_additive.py::test_scores_are_those_of_the_loops",
        ),
        Equation(
            "12, 13",
            "coverage_loss",
            "training.losses.coverage_loss",
            "training/test_criterions.py::test_coverage_loss_equals_a_loop_on_either_side_of_padding",
        ),
        Equation(
            "long short-term memory",
            "lstm_step",
            "models.rnn_decoder.RecurrentDecoder",
            "models/test_pointer_generator.py::test_each_option_alone_is_the_loop",
        ),
        Equation(
            "its encoder",
            "lstm_states",
            "layers.recurrent.BidirectionalLSTM",
            "models/test_pointer_generator.py::test_an_encoder_of_lstms_is_the_loop_in_both_ways_of_running_it",
        ),
    ],
    "Closed-book decoder, Jiang and Bansal 2018": [
        Equation(
            "loss",
            "closed_book",
            "models.rnn_decoder.ClosedBookDecoder",
            "models/test_closed_book.py::test_the_distribution_and_the_loss_equal_loops",
        )
    ],
    "Bottom-Up, Gehrmann et al. 2018": [
        Equation(
            "section 3, labels",
            "label_copied_words",
            "data.labels.labels.label_copied_words",
            "data/test_labels.py::test_copied_words_are_those_of_the_definition",
        ),
        Equation(
            "section 4, masked copying",
            "bottom_up",
            "layers.pointer.Selection",
            "layers/test_bottom_up.py::test_the_distribution_is_that_of_the_definition",
        ),
    ],
    "Inconsistency loss, Hsu et al. 2018": [
        Equation(
            "labels",
            "select_by_greedy_recall",
            "data.labels.labels.select_by_greedy_recall",
            "data/test_labels.py::test_extracted_sentences_are_those_of_the_definition",
        ),
        Equation(
            "extractor",
            "novel_sentences",
            "layers.tagging.NoveltyScorer",
            "models/test_selector.py::test_the_memory_of_what_was_taken_is_that_of_the_paper",
        ),
        Equation(
            "extractor in the summariser",
            "sentence_extractor",
            "models.rnn_encoder.run_extractor",
            "models/test_sentence_attention.py::test_it_is_the_papers_equations",
        ),
        Equation(
            "combined attention",
            "combined_attention",
            "attention.combined_attention_log_weights",
            "models/test_sentence_attention.py::test_combined_attention_and_inconsistency_are_the_loops",
        ),
        Equation(
            "inconsistency loss",
            "inconsistency_loss",
            "attention.inconsistency_loss",
            "models/test_sentence_attention.py::test_combined_attention_and_inconsistency_are_the_loops",
        ),
    ],
    "Explicit-Selection, Li et al. 2018": [
        Equation(
            "model",
            "explicit_selection",
            "models.rnn.RecurrentModel",
            "layers/test_explicit_selection.py::test_it_is_the_equations",
        ),
        Equation(
            "selection loss",
            "selection_loss",
            "training.losses.compute_sentence_selection_divergence",
            "training/test_selection_loss.py::test_the_selection_loss_is_the_loop_and_skips_what_has_no_target",
        ),
        Equation(
            "labels",
            "cosines",
            "data.labels.labels.compute_selection_targets",
            "data/test_labels.py::test_distributions_are_the_cosines_of_the_definition",
        ),
    ],
    "ABS, Rush et al. 2015": [
        Equation(
            "model",
            "next_word",
            "systems.abs.model.ABSModel",
            "systems/abs/test_nnlm.py::test_it_is_the_papers_equations",
        ),
        Equation(
            "section 5, extractive features",
            "extractive_features",
            "systems.abs.features.count_extractive_features",
            "systems/abs/test_extractive.py::test_the_features_of_each_word_are_those_of_a_loop",
        ),
        Equation(
            "authors' code, extractive features",
            "released_features",
            "systems.abs.features.count_extractive_features",
            "systems/abs/test_extractive.py::test_the_released_features_are_those_of_its_code",
        ),
    ],
    "RAS, Chopra et al. 2016": [
        Equation(
            "model", "lstm_step", "models.rnn.RecurrentModel", "models/test_ras.py::test_it_is_the_papers_equations"
        )
    ],
    "ConvS2S, Gehring et al. 2017": [
        Equation(
            "model",
            "fairseq.models.fconv.FConvModel",
            "systems.convs2s.model.ConvolutionalModel",
            "systems/convs2s/test_convs2s.py::test_without_pointer_it_is_fairseqs_fconv_bit_for_bit",
        )
    ],
    "Entail-s2s, Li, Zhu, Zhang and Zong 2018": [
        Equation(
            "model",
            "entail_s2s",
            "models.rnn.RecurrentModel",
            "systems/entailment/test_entail_s2s.py::test_it_is_the_equations",
        ),
        Equation(
            "Zhou et al. 2017, selective gate",
            "selective_gate",
            "models.rnn_encoder.RecurrentEncoder",
            "systems/entailment/test_entail_s2s.py::test_it_is_the_equations",
        ),
        Equation(
            "Norouzi et al. 2016, distances",
            "edit_distances",
            "systems.rewards.augmented.compute_edit_count_distribution",
            "systems/rewards/test_reward_augmented.py::test_the_number_of_edits_is_that_of_all_texts_gone_through",
        ),
        Equation(
            "Norouzi et al. 2016, weights",
            "raml_weights",
            "systems.rewards.augmented.compute_sample_weights",
            "systems/rewards/test_reward_augmented.py::test_weights_are_those_of_the_loop_and_by_hand",
        ),
        Equation(
            "Parikh et al. 2016, 1 to 5",
            "decomposable_attention",
            "systems.entailment.model.DecomposableAttention",
            "systems/entailment/test_nli.py::test_it_is_the_oracle_whatever_the_padding",
        ),
    ],
    "ROUGESal+Ent, Pasunuru and Bansal 2018": [
        Equation(
            "self-critical loss",
            "",
            "systems.rewards.self_critical.SummarizationRL",
            "systems/rewards/test_self_critical.py::test_the_mean_gradient_is_the_exact_one",
        ),
        Equation(
            "ROUGE-L",
            "rouge_score.rouge_scorer._summary_level_lcs",
            "text.subsequences.rouge_l",
            "evaluation/test_rewards.py::test_rouge_l_is_that_of_rouge_score",
        ),
        Equation("ROUGESal", "", "evaluation.rewards.rouge_sal", "evaluation/test_rewards.py::test_rouge_sal_by_hand"),
        Equation(
            "Entail",
            "",
            "evaluation.rewards.EntailmentReward",
            "evaluation/test_rewards.py::test_entailment_of_each_sentence_by_the_whole_reference",
        ),
    ],
    "Sentence rewriting, Chen and Bansal 2018": [
        Equation(
            "labels",
            "match_sentences",
            "data.labels.labels.match_sentences",
            "data/test_labels.py::test_matched_sentences_are_those_of_the_definition",
        ),
        Equation(
            "sentence vectors",
            "sentence_vector",
            "systems.rewriting.model.SentenceConvolution",
            "systems/rewriting/test_pointer_extractor.py::test_it_is_the_papers_equations",
        ),
        Equation(
            "encoder of sentences",
            "lstm_both_ways",
            "layers.recurrent.BidirectionalLSTM",
            "systems/rewriting/test_pointer_extractor.py::test_it_is_the_papers_equations",
        ),
        Equation(
            "pointer network",
            "pointer_scores",
            "systems.rewriting.model.PointerNetwork",
            "systems/rewriting/test_pointer_extractor.py::test_it_is_the_papers_equations",
        ),
        Equation(
            "abstractor",
            "sentence_rewriter",
            "models.rnn.RecurrentModel",
            "systems/rewriting/test_sentence_rewriter.py::test_it_is_the_equations",
        ),
        Equation(
            "rewards",
            "",
            "systems.rewriting.criterion.compute_step_rewards",
            "systems/rewriting/test_extractor_rl.py::test_rewards_and_returns_by_hand",
        ),
        Equation(
            "reranking",
            "best_combination",
            "evaluation.reranking.choose_least_repetitive_candidates",
            "evaluation/test_reranking.py::test_it_is_the_best_of_all_combinations",
        ),
    ],
    "Muon, Jordan et al. 2024": [
        Equation(
            "update",
            "muon",
            "training.muon.MuonWithAdam",
            "training/test_muon.py::test_steps_are_those_of_the_equations",
        ),
        Equation(
            "Newton and Schulz",
            "polynomial_orthogonal",
            "training.muon.orthogonalise",
            "training/test_muon.py::test_an_orthogonal_matrix_is_near",
        ),
        Equation(
            "the nearest orthogonal matrix",
            "nearest_orthogonal",
            "training.muon.orthogonalise",
            "training/test_muon.py::test_an_orthogonal_matrix_is_near",
        ),
    ],
}
"""Paper -> its equations."""
