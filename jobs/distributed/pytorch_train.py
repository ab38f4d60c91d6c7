"""A linear model over all ranks with DistributedDataParallel on Gloo."""

import time

import torch
import torch.distributed as dist

EPOCHS, STEPS = 3, 20

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
own = torch.Generator().manual_seed(rank)
for epoch in range(1, EPOCHS + 1):
    began = time.perf_counter()
    for _ in range(STEPS):
        x = torch.randn(16, 8, generator=own)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    if rank == 0:
        print(f"Epoch {epoch}/{EPOCHS} loss: {loss.item():.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
weights = next(model.parameters()).data
everywhere = [torch.zeros_like(weights) for _ in range(world)]
dist.all_gather(everywhere, weights)
assert all(torch.equal(weights, other) for other in everywhere), "the ranks differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
dist.destroy_process_group()
