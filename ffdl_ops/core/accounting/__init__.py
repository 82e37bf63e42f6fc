"""What a job took: the time of its stages and the GPU time that it held. Pure sums over the ledger's records."""
