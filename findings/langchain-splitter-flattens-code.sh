#!/usr/bin/env bash
# LangChain's splitter of Markdown by headings (PyPI langchain-text-splitters 1.1.3, MarkdownHeaderTextSplitter) takes the blanks before each line away, also
# in a block of code, which it does know: a manifest in YAML or a function in Python that goes into an index has lost its nesting, and can't be repaired from
# what is left. An entry below another one in a list is beside it. MarkdownTextSplitter of the same package keeps both. Exits non-zero if
# that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check langchain-text-splitters==1.1.3
cat >page.md <<'MARKDOWN'
# Deploy

- stop the queue
    - drain it first

```yaml
spec:
  template:
    spec:
      replicas: 2
```
MARKDOWN
venv/bin/python - <<'PYTHON'
from importlib.metadata import version

from langchain_text_splitters import MarkdownHeaderTextSplitter, MarkdownTextSplitter

text = open("page.md").read()
(part,) = MarkdownHeaderTextSplitter([("#", "title")]).split_text(text)
(kept,) = MarkdownTextSplitter().split_text(text)
lines = [line.rstrip() for line in part.page_content.splitlines() if line.strip()]
print("langchain-text-splitters", version("langchain-text-splitters"), lines)
assert lines == ["- stop the queue", "- drain it first", "```yaml", "spec:", "template:", "spec:", "replicas: 2", "```"], lines
assert kept == text.strip(), kept
PYTHON
