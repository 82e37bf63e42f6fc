"""How much training throughput the platform costs: the same program bare, in a plain pod, and as a job of the platform.

`records` says what is measured, `grid` which configurations, `sweep` in which order and until when. `measure` measures one pair:
`bare`, `pods` and `jobs` run the program in each arm, `rounds` and `turns` let them train by turns, `whole` one after the other;
`cpus` keeps the control plane off their CPUs, `machine` tells what else ran there, `started` ends whatever was started.
`statistics` makes intervals of it, `report` and `tracked` show them, `watch` compares with the last accepted sweep.
"""
