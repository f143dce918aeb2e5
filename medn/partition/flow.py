"""The minimum cut of a flow network, by preflow-push.

Only its first phase is needed: the cut is known as soon as nothing more can reach the sink. Paths through
a model are long, and a push goes along all of one in a single pass, where augmenting path by path would walk it again
and again.
"""

from __future__ import annotations

from collections import deque


class FlowNetwork:
    """Nodes 0 to n - 1 and edges with a capacity in each direction."""

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        """The edges that leave each node. Edge e ^ 1 is edge e in the other direction."""
        self._targets: list[int] = []
        self._capacity: list[float] = []

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, source: int, target: int, capacity: float, back: float = 0.0) -> None:
        if source != target:
            self._edges[source].append(len(self._targets))
            self._edges[target].append(len(self._targets) + 1)
            self._targets += (target, source)
            self._capacity += (capacity, back)

    def sink_side(self, source: int, sink: int) -> list[bool]:
        """For each node whether the minimum cut leaves it with the sink; of several such cuts, the one nearest to it.

        Uses the capacities up: call it once.
        """
        count = len(self._edges)
        excess = [0.0] * count
        for edge in self._edges[source]:
            excess[self._targets[edge]] += self._capacity[edge]
            self._capacity[edge ^ 1] += self._capacity[edge]
            self._capacity[edge] = 0.0
        excess[source] = excess[sink] = 0.0
        waiting = deque(node for node in range(count) if excess[node] > 0)
        while waiting:
            self._push(waiting, excess, self._heights(sink), source, sink)
        return [height < count for height in self._heights(sink)]

    def _heights(self, sink: int) -> list[int]:
        """How many edges with capacity left lead from each node to the sink; the number of nodes where none do."""
        count = len(self._edges)
        heights = [count] * count
        heights[sink] = 0
        reached = [sink]
        for node in reached:
            for edge in self._edges[node]:
                neighbour = self._targets[edge]
                if heights[neighbour] == count and self._capacity[edge ^ 1] > 0:
                    heights[neighbour] = heights[node] + 1
                    reached.append(neighbour)
        return heights

    def _push(self, waiting: deque[int], excess: list[float], heights: list[int], source: int, sink: int) -> None:
        """Push excess downhill, relabelling nodes that are stuck, until none is left or heights are out of date."""
        edges, targets, capacity = self._edges, self._targets, self._capacity
        count = len(edges)
        heights[source] = count
        at_height = [0] * (count + 1)
        for height in heights:
            at_height[height] += 1
        raised = 0
        while waiting and raised < count:
            node = waiting.popleft()
            while excess[node] > 0 and heights[node] < count:
                height, lowest = heights[node], count
                for edge in edges[node]:
                    if capacity[edge] > 0:
                        neighbour = targets[edge]
                        if heights[neighbour] == height - 1:
                            pushed = min(capacity[edge], excess[node])
                            if excess[neighbour] == 0 and neighbour != sink:
                                waiting.append(neighbour)
                            excess[neighbour] += pushed
                            excess[node] -= pushed
                            capacity[edge] -= pushed
                            capacity[edge ^ 1] += pushed
                            if excess[node] == 0:
                                break
                        if capacity[edge] > 0:
                            lowest = min(lowest, heights[neighbour])
                else:
                    raised += 1
                    heights[node] = min(lowest + 1, count)
                    at_height[height] -= 1
                    at_height[heights[node]] += 1
                    if at_height[height] == 0:  # nothing above this gap can reach the sink any more
                        heights[:] = [count if height < other else other for other in heights]
