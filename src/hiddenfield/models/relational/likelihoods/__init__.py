"""Methods of learning relational models: one module per likelihood, each registers itself in `LIKELIHOODS`."""
