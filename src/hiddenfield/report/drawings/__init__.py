"""Pictures of single structures, their nodes coloured by what they contribute."""
