"""A cluster in virtual time, decided by the live platform's own scheduler.

`replay` is the loop, `results` what came of it, `compare` runs one load under several policies.
"""
