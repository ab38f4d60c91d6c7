"""A linear model over all ranks with Horovod for PyTorch; gradients are averaged by its optimiser."""

import time

import horovod.torch as hvd
import torch

EPOCHS, STEPS = 3, 20

hvd.init()
rank, world = hvd.rank(), hvd.size()
torch.manual_seed(rank)
model = torch.nn.Linear(8, 1)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
optimiser = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
own = torch.Generator().manual_seed(rank)
for epoch in range(1, EPOCHS + 1):
    began = time.perf_counter()
    for _ in range(STEPS):
        x = torch.randn(16, 8, generator=own)
        optimiser.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimiser.step()
    if rank == 0:
        print(f"Epoch {epoch}/{EPOCHS} loss: {loss.item():.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
assert loss.item() < 0.1, "it does not learn"
everywhere = hvd.allgather(model.weight.data)
assert everywhere.shape[0] == world and bool((everywhere == everywhere[0]).all()), "the ranks differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
hvd.shutdown()
