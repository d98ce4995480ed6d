"""Writes what a chart renders with its default values into a folder, a file for each template.

Usage: helm_render.py CHART FOLDER
"""

import os
import sys

import helm_python as helm

CHART, FOLDER = sys.argv[1], sys.argv[2]
for path, text in helm.Chart.load(CHART).render({}, name="codebutler", namespace="codebutler-system").items():
    if path.endswith(".yaml") and text.strip():
        with open(os.path.join(FOLDER, os.path.basename(path)), "w") as file:
            file.write(text)
