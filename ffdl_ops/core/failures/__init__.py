"""TODO-doc."""
