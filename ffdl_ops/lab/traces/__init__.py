"""Traces of real clusters, read from the files that their owners publish, and made into jobs and nodes of a replay.

`philly_table` and `philly_log` read Microsoft's Philly trace (CC BY 4.0), `openb` Alibaba's GPU trace of 2023. Neither is
part of this project: whoever wants to replay one brings its files. `gangs` makes a recorded job into a gang that the
scheduler takes, `figures` counts what the study of the Philly cluster published, `formats` tells the files apart.
"""
