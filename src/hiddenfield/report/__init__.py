"""Results for a person to look at: plots and pages."""
