"""The right device for a model: which of several meet limits on latency and memory, and which of those is cheapest."""

from medn.recommending.recommend import ModelLimits as ModelLimits
from medn.recommending.recommend import recommend_device as recommend_device
