"""The stages as operators, one module each for those that do more than call one function."""
