"""How much training throughput the platform costs: the same program bare, in a plain pod, and as a job of the platform.

`records` says what is measured, `grid` which configurations, `sweep` in which order and until when; `arms` runs a program in each
arm and `turns` lets the arms train by turns; `statistics` makes intervals of it, `report` and `tracked` show them, `watch`
compares with the last accepted sweep.
"""
