"""What a deferred stage waits for. A trigger keeps nothing of its own: killed or run twice, it reads the ledger again."""
