"""The values of those options of decoding that are a choice; without torch, so that ``--help`` need not wait for it."""

LENGTH_KINDS = ("avg", "wu")
COVERAGE_KINDS = ("summary", "wu")
EARLY_STOPPING = ("admissible", "heuristic", "fairseq")
ALIGNMENTS = ("hard", "soft")
INFER_DTYPES = ("fp32", "bf16", "int8", "auto")
