"""Sends dead letters of one reason again to where they came from, once they are readable.

python -m deploy.send_again kafka-1:9092 search-dead-letters too_large
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def send_again(servers: str, letters: str, reason: str) -> int:
    """Sends the letters of one reason to where they came from; returns how many."""
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = AIOKafkaConsumer(letters, bootstrap_servers=servers, **options)
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    await consumer.start()
    await producer.start()
    sent = 0
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                batch = await consumer.getmany(partition, timeout_ms=1000)
                for letter in batch.get(partition, []):
                    headers = dict(letter.headers)
                    shortened = "relevanced.shortened_from_bytes" in headers
                    of_reason = headers["relevanced.reason"].decode() == reason
                    if letter.offset < end and of_reason and not shortened:
                        topic = headers["relevanced.topic"].decode()
                        at = int(headers.get("relevanced.refused_timestamp_ms", letter.timestamp))
                        await producer.send(topic, letter.value, letter.key, timestamp_ms=at)
                        sent += 1
        await producer.flush()
    finally:
        await consumer.stop()
        await producer.stop()
    return sent


if __name__ == "__main__":
    print(asyncio.run(send_again(*sys.argv[1:4])), "sent")
