"""Example trainings and the program that tests and benchmarks run.

Each is a plain script, as a user would write it: it reads `DATA_DIR`, writes `CHECKPOINT_DIR` and `RESULT_DIR`, and imports
nothing of this project.
"""
