"""Learns from logs what the optimizer `asm` has to know [ASM section 4.1]; needs `pip install 'edt[learn]'`.

```python
from edt.learning import learn, logs

knowledge = learn(logs.read_csv("transfers.csv"))
knowledge.write("knowledge.json")  # then: edt cp --optimizer asm --knowledge knowledge.json ...
```
"""

from edt.learning.entries import NO_LIMIT, Entries
from edt.learning.knowledge import Knowledge
from edt.learning.learn import learn
from edt.learning.options import Options

__all__ = ["NO_LIMIT", "Entries", "Knowledge", "Options", "learn"]
