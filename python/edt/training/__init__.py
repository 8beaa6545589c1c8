"""Trains agents that tune the concurrency of transfers [EDT, AutoMDT]; needs `pip install 'edt[train]'`.

```python
from edt.training import PathEstimate, train, save

path = PathEstimate(bandwidth=(125e6,), stream_rate=(18.75e6,), rtt_s=0.067)  # 1 Gbit/s, 150 Mbit/s a stream
save(train("edt", path), "cloudlab.safetensors")  # then: edt cp --optimizer edt --agent cloudlab.safetensors ...
```
"""

from edt.training.agent_file import save, save_onnx
from edt.training.episodes import Episodes, Variety
from edt.training.evaluation import Comparison, compare
from edt.training.path import PathEstimate
from edt.training.ppo import Options, Point, Trained, train

__all__ = [
    "Comparison",
    "Episodes",
    "Options",
    "PathEstimate",
    "Point",
    "Trained",
    "Variety",
    "compare",
    "save",
    "save_onnx",
    "train",
]
