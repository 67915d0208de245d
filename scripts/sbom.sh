#!/usr/bin/env bash
# Prints a CycloneDX 1.5 document of libbetz; scripts/sbom.py describes it.
#
#   scripts/sbom.sh [--no-cuda | --runtime-only]
exec python3 "$(dirname "$0")/sbom.py" "$@"
