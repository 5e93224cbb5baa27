"""Complete models, built of fields, inference and learning."""
