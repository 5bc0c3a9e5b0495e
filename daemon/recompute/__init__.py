"""Events through the pipeline again, of files or of Kafka: to print, to compare, to fill hours."""
