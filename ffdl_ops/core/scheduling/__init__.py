"""Who may start now, and on which nodes: a pure decision over a snapshot of the cluster, the queue and the tenants.

`model` holds the facts that go in and come out, `fit` says where a gang fits, `quota` what its tenant may still take,
`reasons` tells a person why a gang waits, and `decide` puts them together. The live platform and the simulator call the same
:func:`decide.decide`.
"""
