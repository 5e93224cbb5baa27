"""One module a file format of fields, found through `hiddenfield.fields.formats`."""
