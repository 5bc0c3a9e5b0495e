"""Creates topics: those of the demo and of tests, and the topic that the stage writes."""

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from .client import KafkaSettings, client_arguments
from .topics import Diagnosis, logger


async def create_topic(
    settings: KafkaSettings, topic: str, *, partitions: int, replicas: int | None = None
) -> bool:
    """Create the topic unless it exists; True if it was created. `replicas` None leaves their
    number to the cluster.

    Raises KafkaError when the cluster is away or refuses.
    """
    new_topic = NewTopic(topic, partitions, replicas or -1, {} if replicas is None else None)
    admin = AIOKafkaAdminClient(**client_arguments(settings))
    try:
        await admin.start()
        response = await admin.create_topics([new_topic])
    finally:
        await admin.close()
    _, code, *message = response.topic_errors[0]
    error = for_code(code)
    if error is TopicAlreadyExistsError:
        return False
    if code:
        raise error(f"topic {topic} was not created", *message)
    logger.info("topic created", topic=topic, partitions=partitions)
    return True


async def make_stage_topic(
    settings: KafkaSettings, topic: str, partitions: int, inputs: Diagnosis
) -> None:
    """Create the topic that the stage writes, unless it is there; else say the command that does,
    once. The `inputs` are waited for."""
    await inputs.wait_for_topics()
    try:
        await create_topic(settings, topic, partitions=partitions)
    except (KafkaError, OSError) as error:
        logger.warning(
            "the topic of the stage is not created by this process",
            topic=topic,
            reason=f"{type(error).__name__}: {error}",
            advice=f"If it does not exist: kafka-topics --bootstrap-server"
            f" {settings.bootstrap_servers} --create --topic {topic} --partitions {partitions}."
            " Allow this user to write to it.",
        )
