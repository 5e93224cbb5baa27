"""File formats of fields, one module each; `hiddenfield.fields.formats` finds them."""
