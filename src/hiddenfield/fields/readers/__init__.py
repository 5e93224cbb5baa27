"""File formats of fields, one module each; `hiddenfield.fields.reading` finds them."""
