"""The HTTP face of minicluster: one module per concern, each turning a request into calls of the store and the kubelet."""
