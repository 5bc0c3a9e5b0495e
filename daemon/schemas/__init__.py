"""From the bytes of a framed Avro, Protobuf or JSON record to the value that expressions see."""
