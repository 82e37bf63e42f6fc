"""Replays of recorded or made-up job streams through the scheduling code that the live platform runs, in virtual time."""
