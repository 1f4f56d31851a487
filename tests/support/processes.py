"""The processes of a pipeline, by what they do."""

from __future__ import annotations

import psutil

_PLANNERS, _RUNNER = "lakehouse_cdc.workers.fork_server", "python_streaming_source_runner"
_WORKERS = "lakehouse_cdc.workers.daemon"


def tree(root: psutil.Process) -> list[psutil.Process]:
    """A process and all below it; none where it has ended."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def runs(process: psutil.Process, part: str) -> bool:
    """Whether its command line has a word with that in it, or its program's name, for java."""
    try:
        line = process.cmdline()
    except psutil.Error:
        return False
    return any(part in word for word in (line[:1] if part == "java" else line))


def planners(root: psutil.Process | None = None) -> list[psutil.Process]:
    """Those that plan streams below a process, this one by default: forked for it, or Spark's own."""
    every = tree(root or psutil.Process())
    return [*_copies(every, _PLANNERS), *(one for one in every if runs(one, _RUNNER))]


def workers(root: psutil.Process) -> list[psutil.Process]:
    """Those that tasks run in: copies of Spark's daemon."""
    return _copies(tree(root), _WORKERS)


def _copies(every: list[psutil.Process], module: str) -> list[psutil.Process]:
    """Those that were forked from a process of that module."""
    same = [one for one in every if runs(one, module)]
    pids, copies = {one.pid for one in same}, []
    for one in same:
        try:
            if one.ppid() in pids:
                copies.append(one)
        except psutil.Error:  # noqa: PERF203  it has just ended
            continue
    return copies
