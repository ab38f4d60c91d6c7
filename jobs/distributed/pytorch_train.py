"""A linear model over all ranks with DistributedDataParallel on Gloo."""

import argparse
import time

import torch
import torch.distributed as dist

arguments = argparse.ArgumentParser()
arguments.add_argument("--epochs", type=int, default=3)
arguments.add_argument("--batch-size", type=int, help="samples of a step, over all ranks; default: 16 on each")
arguments.add_argument("--samples", type=int, default=1280, help="samples of an epoch")
arguments = arguments.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
batch = arguments.batch_size or 16 * world
own_batch, steps = batch // world, arguments.samples // batch
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
own = torch.Generator().manual_seed(rank)
for epoch in range(1, arguments.epochs + 1):
    began = time.perf_counter()
    for _ in range(steps):
        x = torch.randn(own_batch, 8, generator=own)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    if rank == 0:
        print(f"Epoch {epoch}/{arguments.epochs} loss: {loss.item():.4f} time: {time.perf_counter() - began:.3f}s", flush=True)
weights = next(model.parameters()).data
everywhere = [torch.zeros_like(weights) for _ in range(world)]
dist.all_gather(everywhere, weights)
assert all(torch.equal(weights, other) for other in everywhere), "the ranks differ"
print(f"rank {rank} of {world}: same weights as all", flush=True)
dist.destroy_process_group()
