"""Names the columns of the arrays that a `Batch` fills, by the number of its stages."""

from typing import Final

OBSERVATION: Final[dict[int, tuple[str, ...]]] = {
    1: ("concurrency", "throughput_bps", "loss"),
    3: (
        "read_concurrency",
        "network_concurrency",
        "write_concurrency",
        "read_bps",
        "network_bps",
        "write_bps",
        "sender_free_bytes",
        "receiver_free_bytes",
        "loss",
    ),
}
"""What a controller sees: the concurrency applied in the measured interval, and what was measured, noise and all."""

METRICS: Final[dict[int, tuple[str, ...]]] = {
    1: ("throughput_bps", "loss", "capacity_bps", "competing_streams", "stream_bps"),
    3: (
        "read_bps",
        "network_bps",
        "write_bps",
        "sender_free_bytes",
        "receiver_free_bytes",
        "loss",
        "read_capacity_bps",
        "network_capacity_bps",
        "write_capacity_bps",
        "competing_streams",
        "read_stream_bps",
        "network_stream_bps",
        "write_stream_bps",
    ),
}
"""The truth of the last interval: what was moved and lost, and what could have been.

The network's capacity is what background traffic and the cliff left of it. A stream's rate is what one warm stream
or worker moves where nothing else limits it, its window and files counted in. Both follow the scenario's changes.
"""

ACCOUNT: Final[tuple[str, ...]] = (
    "bytes_read",
    "bytes_sent",
    "bytes_written",
    "sender_buffer_bytes",
    "receiver_buffer_bytes",
)
"""Bytes since the last reset, and bytes in buffers: read = sent + sender buffer, sent = written + receiver buffer."""
