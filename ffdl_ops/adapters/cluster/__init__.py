"""The cluster as this platform uses it: nodes and pods through the official `kubernetes` client.

`client` speaks to the API server, `gang` and `helper` turn a job into pod specifications, `observe` turns pods into the
evidence that the core classifies. Nothing here decides; nothing above this package sees a Kubernetes object.
"""
