"""Computing what does not depend on an input: what that is, its values, and which of them to store."""
