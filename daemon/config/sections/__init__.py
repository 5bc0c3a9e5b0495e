"""The sections of the configuration: what each reads, checks and writes."""
