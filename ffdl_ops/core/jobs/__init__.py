"""What a training job is: the manifest that a user writes, the trigger form, identifiers, and the states of a job."""
