"""The command line: arguments in, text or one line of JSON out, and an exit code that means something."""
