# fairseq-etads on Debian with Python 3.11, and with a torch for processors.
#
#   docker build -t fairseq-etads .
#   docker run --rm -it -v "$PWD/runs:/fairseq-etads/runs" fairseq-etads scripts/quickstart.sh --no-install
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends g++ libxml-parser-perl && rm -rf /var/lib/apt/lists/*
WORKDIR /fairseq-etads
COPY setup.py pyproject.toml MANIFEST.in README.md LICENSE CHANGELOG.md CITATION.cff constraints.txt ./
COPY fairseq_etads fairseq_etads
COPY preprocess preprocess
COPY scripts scripts
# --build-arg ETADS_VERSION="$(python3 fairseq_etads/version.py)" gives the image the version of the clone
ARG ETADS_VERSION
RUN ETADS_VERSION=$ETADS_VERSION scripts/install.sh --cpu --venv /opt/etads
ENV PATH=/opt/etads/bin:$PATH ETADS_VENV=/opt/etads
CMD ["bash"]
