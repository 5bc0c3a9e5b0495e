"""The door to a schema registry: schemas by the ids that records name, over HTTP or from Glue."""
