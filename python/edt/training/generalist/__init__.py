"""Trains the generalist policy: one recurrent network for all paths, through a differentiable simulator.

```python
from edt.training.generalist import Options, assess, train

trained = train(Options(episodes=50, seed=1))
print(assess(trained.policy).scores["held-out paths"])
```
"""

from edt.training.generalist.assess import Assessment, assess
from edt.training.generalist.files import load, save
from edt.training.generalist.policy import Pilot, Policy
from edt.training.generalist.train import Options, Trained, train

__all__ = ["Assessment", "Options", "Pilot", "Policy", "Trained", "assess", "load", "save", "train"]
