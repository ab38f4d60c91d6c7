#!/usr/bin/env python3
"""Picks batch scripts of a git repository by a seed, as many of each kind as there are, for same.py.

    tests/same/pick.py REPOSITORY DIRECTORY [--count N] [--seed N] [--prefix '#SBATCH']

Kinds are what scripts ask for and how they start programs. The scripts are written to DIRECTORY, named by the digest of
their content, with the permission bits that git has.
"""

import argparse
import hashlib
import pathlib
import random
import re
import subprocess

KINDS = {
    "gpus": r"^#SBATCH.*(--gres[= ]gpu|--gpus|-G ?\d)",
    "gpus of a task": r"^#SBATCH.*--gpus-per-task",
    "nodes": r"^#SBATCH.*(-N ?|--nodes[= ])([2-9]|\d\d)",
    "tasks": r"^#SBATCH.*(-n ?|--ntasks[= ])([2-9]|\d\d)",
    "tasks of a node": r"^#SBATCH.*--ntasks-per-node[= ]([2-9]|\d\d)",
    "no tasks": r"\A(?!(.|\n)*^#SBATCH.*(-n ?\d|--ntasks))",
    "array": r"^#SBATCH.*(--array|-a ?\d)",
    "sh": r"\A#! ?/bin/sh",
    "login shell": r"\A#!.*(-l|--login)",
    "other shell": r"\A#!(?!.*(bash|/sh))",
    "no shell": r"\A(?!#!)",
    "export": r"^#SBATCH.*--export",
    "signal": r"^#SBATCH.*--signal",
    "requeue": r"^#SBATCH.*--(no-)?requeue",
    "mail": r"^#SBATCH.*--mail-type(.|\n)*^#SBATCH.*--mail-type",
    "memory of a CPU": r"^#SBATCH.*--mem-per-cpu",
    "exclusive": r"^#SBATCH.*--exclusive",
    "srun": r"^\s*srun ",
    "mpirun": r"^\s*mpi(run|exec)",
    "container": r"(singularity|apptainer) (exec|run)",
    "conda": r"conda activate|source activate",
    "virtual environment": r"bin/activate",
    "modules": r"^\s*(module|ml) ",
    "background": r"&\s*$(.|\n)*^\s*wait\b",
    "trap": r"^\s*trap ",
    "set -e": r"^\s*set -[a-z]*e",
    "here-document": r"<<-?\s*['\"]?\w",
    "torchrun": r"torchrun|torch.distributed|accelerate launch|deepspeed ",
    "umask or ulimit": r"^\s*(umask|ulimit) ",
    "command line": r"\$[1@*]",
    "its own place": r"\$0|BASH_SOURCE|SLURM_SUBMIT_DIR",
    "CR LF": r"\r$",
}


def git(repository, *words, **options):
    return subprocess.run(["git", "-C", repository, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default="#SBATCH")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    names = git(asked.repository, "grep", "-lIE", f"^{asked.prefix}", "HEAD").decode("utf-8", "replace").splitlines()
    names = [name[len("HEAD:"):] for name in names]
    chance.shuffle(names)
    blobs = {}
    for line in git(asked.repository, "ls-tree", "-rz", "HEAD").decode("utf-8", "replace").split("\0"):
        head, _, name = line.partition("\t")
        if head:
            blobs[name] = head.split()
    taken, of_kind, least = {}, dict.fromkeys(KINDS, 0), max(1, asked.count // len(KINDS) // 2)
    for turn in ("kinds", "rest"):
        for name in names[:6000]:
            if len(taken) >= asked.count:
                break
            if name not in blobs:
                continue
            mode, _, blob = blobs[name]
            text = git(asked.repository, "cat-file", "blob", blob)
            digest = hashlib.sha256(text).hexdigest()[:12]
            if not text or len(text) > 100_000 or digest in taken:
                continue
            shown = text.decode("utf-8", "replace").replace("#PBS", "#SBATCH") if asked.prefix == "#PBS" else text.decode("utf-8", "replace")
            kinds = [kind for kind, pattern in KINDS.items() if re.search(pattern, shown, re.M)]
            if turn == "rest" or any(of_kind[kind] < least for kind in kinds):
                taken[digest] = (text, int(mode, 8) & 0o777)
                for kind in kinds:
                    of_kind[kind] += 1
    asked.directory.mkdir(parents=True, exist_ok=True)
    for digest, (text, mode) in taken.items():
        path = asked.directory / f"{digest}.sh"
        path.write_bytes(text)
        path.chmod(mode)
    print(f"{len(taken)} scripts of {len(names)}")
    for kind, count in of_kind.items():
        print(f"  {count:4}  {kind}")


if __name__ == "__main__":
    main()
