#!/usr/bin/env bash
# `git_commit` of the official MCP server `git` (PyPI mcp-server-git 2026.10.10) ends a merge that stopped at a conflict, but no cherry-pick and no revert:
# it says "committed", and Git is still in the middle of it. What was picked is then by whoever runs the server, and no longer by its
# author. `git commit` ends all of them and keeps the author. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null
unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check mcp==1.30.0 mcp-server-git==2026.10.10
cat >use.py <<'PYTHON'
import asyncio
import subprocess
from importlib.metadata import version
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def git(repo, *words):
    return subprocess.run(["git", *words], cwd=repo, capture_output=True, text=True).stdout.strip()


def stopped(repo, begin):
    """A repository in which a change of Ben's conflicts with one of Ana's, settled in the worktree."""
    git(".", "init", "-q", repo)
    git(repo, "config", "user.name", "Ana")
    git(repo, "config", "user.email", "ana@example.org")
    price = Path(repo, "price")
    for branch, value, author in [(["-B", "main"], "1", "Ana"), (["-b", "side"], "2", "Ben"), (["main"], "3", "Ana")]:
        git(repo, "checkout", "-q", *branch)
        price.write_text(value + "\n")
        git(repo, "add", "price")
        git(repo, "commit", "-q", "-m", f"Price {value}", f"--author={author} <{author.lower()}@example.org>")
    git(repo, *begin)
    price.write_text("4\n")


def outcome(repo):
    state = [name for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD") if Path(repo, ".git", name).exists()]
    return git(repo, "log", "-1", "--format=%an"), len(git(repo, "log", "-1", "--format=%p").split()), state


async def by_server(repo):
    server = StdioServerParameters(command="venv/bin/mcp-server-git", args=["-r", repo])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        await session.call_tool("git_add", {"repo_path": repo, "files": ["price"]})
        answer = await session.call_tool("git_commit", {"repo_path": repo, "message": "Price 4"})
        assert "committed successfully" in answer.content[0].text, answer
    return outcome(repo)


def by_git(repo):
    git(repo, "commit", "-qam", "Price 4")
    return outcome(repo)


print("mcp-server-git", version("mcp-server-git"), "author, parents and what is unfinished")
for begin, plain, served in [
    (["merge", "side"], ("Ana", 2, []), ("Ana", 2, [])),
    (["cherry-pick", "side"], ("Ben", 1, []), ("Ana", 1, ["CHERRY_PICK_HEAD"])),
    (["revert", "--no-edit", "HEAD~1"], ("Ana", 1, []), ("Ana", 1, ["REVERT_HEAD"])),
]:
    repos = [str(Path(f"{begin[0]}-{by}").absolute()) for by in ("git", "server")]
    for repo in repos:
        stopped(repo, begin)
    found = by_git(repos[0]), asyncio.run(by_server(repos[1]))
    print(begin[0], "by git commit:", found[0], "by git_commit:", found[1])
    assert found == (plain, served), found
PYTHON
venv/bin/python use.py
