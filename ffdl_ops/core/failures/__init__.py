"""What an attempt's end means: its failure class, the first cause among a gang, and whether the gang is started again."""
