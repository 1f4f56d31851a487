"""What users do wrong, done to the real program, and what it says then: the page of mistakes is made from it.

    uv run python -m tests.mistakes > docs/reference/mistakes.md

A mistake is a file, a command or a setting as somebody may write it, given to the command line; two servers run for
those that a server must answer. `test_mistakes.py` makes each again and compares it with its line of the page, so a
text that changes is read by whoever changes it.
"""
