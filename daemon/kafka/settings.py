"""From the configuration to the plain values that Kafka clients take. Pure."""

from ..config.kinds import Secret
from ..config.settings import Config
from ..storage.schema import consumer_group
from .client import KafkaSettings


def kafka_settings(config: Config) -> KafkaSettings:
    """Addresses, credentials, topics and the consumer group of this configuration."""
    kafka = config.kafka
    return KafkaSettings(
        bootstrap_servers=",".join(kafka.bootstrap_servers),
        topics=kafka.topics,
        group_id=consumer_group(config),
        client_id=kafka.client_id,
        security_protocol=kafka.security_protocol,
        sasl_mechanism=kafka.sasl_mechanism or "PLAIN",
        sasl_username=kafka.sasl_username,
        sasl_password=_revealed(kafka.sasl_password),
        ssl_cafile=kafka.ssl_cafile,
        ssl_certfile=kafka.ssl_certfile,
        ssl_keyfile=kafka.ssl_keyfile,
        ssl_key_password=_revealed(kafka.ssl_key_password),
        ssl_check_hostname=kafka.ssl_check_hostname,
        isolation_level=kafka.isolation_level,
        session_timeout_s=kafka.session_timeout_s,
    )


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
