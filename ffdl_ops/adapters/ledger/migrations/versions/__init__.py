"""The versions, oldest first; a published one is never edited."""
