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
    1: ("throughput_bps", "loss", "capacity_bps", "competing_streams"),
    3: (
        "read_bps",
        "network_bps",
        "write_bps",
        "sender_free_bytes",
        "receiver_free_bytes",
        "loss",
        "capacity_bps",
        "competing_streams",
    ),
}
"""The truth of the last interval; `capacity_bps` is what background traffic and the cliff leave of the link."""

ACCOUNT: Final[tuple[str, ...]] = (
    "bytes_read",
    "bytes_sent",
    "bytes_written",
    "sender_buffer_bytes",
    "receiver_buffer_bytes",
)
"""Bytes since the last reset, and bytes in buffers: read = sent + sender buffer, sent = written + receiver buffer."""
