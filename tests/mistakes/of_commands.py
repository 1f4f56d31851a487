"""Mistakes on the command line."""

from __future__ import annotations

from tests.mistakes.mistake import Mistake

COMMANDS = (
    Mistake("a misspelt command", "runn -c pipeline.yml"),
    Mistake("a misspelt option", "run -c pipeline.yml --onse"),
    Mistake("no file", "doctor"),
    Mistake("the file without -c", "run pipeline.yml"),
    Mistake("an option before the command", "-c pipeline.yml doctor"),
    Mistake("a file that is not there", "doctor -c pipelines.yml"),
    Mistake("a folder for the file", "doctor -c ."),
    Mistake("a setting without a value", "doctor -c pipeline.yml --set source.url"),
    Mistake("a setting of a section that does not exist", "doctor -c pipeline.yml --set sorce.url=mysql://cdc@db"),
    Mistake("an interval in words", "run -c pipeline.yml --every soon"),
    Mistake("a signal without its tables", "signal -c pipeline.yml snapshot"),
    Mistake("a signal that does not exist", "signal -c pipeline.yml snapshoot"),
    Mistake("a draft without a source", "init new.yml"),
    Mistake("a draft with the password in the url", "init --url mysql://cdc:hunter2-hunter2@127.0.0.1 new.yml"),
    Mistake("a draft with a word for a mode of TLS", "init --url mysql://cdc@127.0.0.1:3306 --tls yes new.yml"),
    Mistake(
        "a draft over a file that is there",
        "init --url mysql://cdc@127.0.0.1:3306 --password-env SHOP_PASSWORD --tables 'shop.*' pipeline.yml",
        server=True,
    ),
    Mistake("a reset for machines without --yes", "reset -c pipeline.yml --json"),
    Mistake("a demo of few rows", "demo --rows 10"),
    Mistake("a demo with the password in the url", "demo --url mysql://cdc:hunter2-hunter2@127.0.0.1:3306"),
)
