"""What a Kubernetes API must do for this platform; the same tests run on minicluster and on any cluster."""
