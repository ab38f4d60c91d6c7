#!/usr/bin/env python3
"""Runs batch scripts twice, by `sbatch` and by `dlrun convert` and `dlrun submit`, and compares what their programs find.

    tests/same/same.py [--localise] [--seed N --sample N] [--keep] [--json FILE] PATH...

PATH is a script or a directory of scripts. Every program of a script is a stand-in (record.pl) that writes down its
arguments, directory, environment, limits, umask, signals, streams, parent and process group. What Slurm knows of the two
jobs, what they printed and the files that they left are compared too.

It runs as root, since the jobs are an ordinary user's. DLRUN_TEST_SLURM_CONF names the cluster, DLRUN_TEST_USER the user,
DLRUN_TEST_BINARY dlrun; for --scheduler torque or openpbs, DLRUN_TEST_TORQUE_BIN or DLRUN_TEST_OPENPBS_BIN their commands. --localise fits scripts of other sites to the test cluster, the same way for both runs.

Lines `# same: KEY VALUE` of a script say how it is submitted (`umask 077`, `ulimit -n 512`, `env NAME=VALUE`, `dir NAME`,
`mode 755`) and what must be seen of it (`records N`, `expects KIND` for a difference that is on purpose).
Exit code 1: a script differs by mistake, or recorded less than it says.
"""

import argparse
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import differ
import localise
import schedulers

HERE = pathlib.Path(__file__).resolve().parent
# How long a job may wait and run, in seconds.
PATIENCE = 90
SIDES = ("a", "b")  # the original, and dlrun's

# What a site's `module` does, as a function that the submitting shell hands over.
MODULE = """() {  case ${1-} in
 load|add) shift; local m; for m; do PATH=%s/modules/$m/bin:$PATH; LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$m; done; export PATH LOADEDMODULES;;
 esac
}"""


class Pair:
    """One script and its two runs."""

    def __init__(self, name, text, mode, root, settings):
        self.name, self.text, self.settings = name, text, settings
        self.root = root / re.sub(r"[^\w.-]", "_", name)
        self.wishes = [line.split(None, 3)[2:] for line in text.splitlines() if line.startswith("# same: ")]
        self.mode = int(self.wish("mode", "") or "%o" % mode, 8)
        self.jobs, self.known, self.refused = {}, {}, {}
        self.was_cut = False

    def wish(self, key, default=None):
        values = self.all_wishes(key)
        return values[-1] if values else default

    def all_wishes(self, key):
        return [wish[1] if len(wish) > 1 else "" for wish in self.wishes if wish[0] == key]

    def side(self, side):
        return self.root / side

    def work(self, side):
        return self.side(side) / self.wish("dir", "work")

    def prepare(self):
        for side in SIDES:
            base, work = self.side(side), self.work(side)
            for path in (base / ".records", base / "stubs", base / "home", base / "site", work):
                path.mkdir(parents=True, exist_ok=True)
            for rc in (".profile", ".bash_profile"):
                # A login shell's /etc/profile may set PATH anew.
                (base / "home" / rc).write_text(f'export SAME_PROFILE=read PATH="{base}/stubs:$PATH"\n')
            record = base / "stubs" / "record"
            shutil.copy(HERE / "record.pl", record)
            text = self.text
            if self.settings.localise:
                text = localise.script(text, base, work, record)
            for stub in localise.programs(text, self.settings.localise):
                localise.link(record, base / "stubs" / stub)
            localise.make_programs_files(text, base, work)
            script = work / "job.sh"
            script.write_bytes(text.encode("utf-8", "surrogateescape"))
            script.chmod(self.mode)
        user = self.settings.user
        subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", self.root], check=True)

    def environment(self, side):
        base = self.side(side)
        values = {
            "PATH": ":".join([f"{base}/stubs", *self.settings.scheduler.path, "/usr/local/bin:/usr/bin:/bin"]),
            "HOME": f"{base}/home",
            "USER": self.settings.user.pw_name,
            "LOGNAME": self.settings.user.pw_name,
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "SAME_OF_THE_SUBMITTER": "kept",
            "BASH_FUNC_module%%": MODULE % base,
        }
        values.update(self.settings.scheduler.variables)
        values.update(wish.split("=", 1) for wish in self.all_wishes("env"))
        return values

    def as_user(self, side, command):
        """Runs a command as the user in the work directory, with umask and limits as the script wishes."""
        user = self.settings.user
        limits = "".join(f"ulimit {wish}; " for wish in self.all_wishes("ulimit"))
        shell = f"{limits}umask {self.wish('umask', '022')}; exec \"$@\""
        words = ["setpriv", "--init-groups", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
        words += ["/bin/bash", "--norc", "-c", shell, "same", *map(str, command)]
        return subprocess.run(
            words, cwd=self.work(side), env=self.environment(side), stdin=subprocess.DEVNULL, timeout=150,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
        )

    def submit(self):
        words = self.settings.scheduler.hold if self.settings.held else self.settings.scheduler.submit
        answer = self.as_user("a", [*words, "job.sh"])
        if answer.returncode == 0:
            self.jobs["a"] = self.settings.scheduler.id_of(answer.stdout)
        else:
            self.refused["a"] = answer.stderr.strip()
            return
        dlrun = self.settings.dlrun
        converted = self.as_user("b", [dlrun, "convert", "job.sh", "-o", "job.toml"])
        self.notes = converted.stderr
        if converted.returncode:
            self.refused["b"] = "convert: " + converted.stderr.strip()
            return
        if self.settings.held:
            kind = self.settings.scheduler.kind
            rendered = self.as_user("b", [dlrun, "render", "--no-check", "--scheduler", kind, "job.toml"])
            (self.work("b") / "job.rendered").write_text(rendered.stdout)
            answer = self.as_user("b", [*self.settings.scheduler.hold, "job.rendered"])
            if rendered.returncode or answer.returncode:
                self.refused["b"] = "render: " + (rendered.stderr + answer.stderr).strip()
            else:
                self.jobs["b"] = self.settings.scheduler.id_of(answer.stdout)
            return
        answer = self.as_user("b", [dlrun, "--json", "submit", "job.toml"])
        if answer.returncode:
            self.refused["b"] = "submit: " + (answer.stdout + answer.stderr).strip()
            return
        self.jobs["b"] = json.loads(answer.stdout)["result"]["job_id"]

    def is_over(self, side):
        now, is_over = self.settings.scheduler.look(lambda words: self.as_user(side, words).stdout, self.jobs[side])
        if now and is_over:
            self.known[side] = now
        return is_over

    def run(self):
        self.prepare()
        self.submit()
        if self.settings.held:
            for side, job in self.jobs.items():
                run = lambda words: self.as_user(side, words).stdout  # noqa: E731
                self.known[side], _ = self.settings.scheduler.look(run, job)
                self.as_user(side, [*self.settings.scheduler.cancel, job])
            return
        try:
            waits, deadline = set(self.jobs), time.time() + PATIENCE
            while waits and time.time() < deadline:
                time.sleep(1)
                waits -= {side for side in waits if self.is_over(side)}
            for side in waits:
                self.was_cut = True
                self.as_user(side, [*self.settings.scheduler.cancel, self.jobs[side]])
            for side in waits:
                for _ in range(40):
                    if self.is_over(side):
                        break
                    time.sleep(0.5)
        finally:
            if len(self.known) < len(self.jobs):
                self.as_user("a", [*self.settings.scheduler.cancel, *self.jobs.values()])

    def both_ran(self):
        return set(self.known) == set(SIDES)

    def output_files(self, side):
        """The files of a job's output: those that the scheduler names (`HOST:PATH` in PBS), and dlrun's."""
        keys = self.settings.scheduler.streams
        names = {job.get(key, "").split(":")[-1] for job in self.known[side] for key in keys}
        own = self.work(side).glob("*.out") if side == "b" else []
        paths = {pathlib.Path(name) for name in names} | {path for path in own if re.search(r"-[\d_]+\.out$", path.name)}
        # Slurm does not say what `%N` became.
        patterns = [re.compile(re.sub(r"%\\?\w", ".*", re.escape(name))) for name in names if "%" in name]
        paths |= {path for path in self.work(side).rglob("*") if any(pattern.fullmatch(str(path)) for pattern in patterns)}
        return sorted(path for path in paths if path.is_file() and self.root in path.parents)

    def output(self, side):
        return [line for path in self.output_files(side) for line in path.read_text(errors="replace").splitlines()]

    def files(self, side):
        outputs, work = self.output_files(side), self.work(side)
        return {str(path.relative_to(work)) for path in work.rglob("*") if path not in outputs} - {"job.toml"}

    def compare(self):
        return differ.settled(differ.differences(self))


def scripts(settings):
    """The scripts as (name, text, mode)."""
    paths = []
    for path in map(pathlib.Path, settings.paths):
        paths += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    if settings.sample and settings.sample < len(paths):
        paths = random.Random(settings.seed).sample(paths, settings.sample)
    for path in paths:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        yield path.name, text, path.stat().st_mode & 0o777


def verdict(pair):
    """Which row of the table, and the differences as (kind, detail, reason or None)."""
    if "a" in pair.refused:
        return "refused by sbatch too", []
    if "b" in pair.refused:
        reason = differ.refused_on_purpose(pair.refused["b"])
        found = [("refused by dlrun", pair.refused["b"], reason)]
        return ("different on purpose" if reason else "different by mistake"), found
    if not pair.both_ran():
        return "did not start in time", []
    if pair.was_cut and pair.settings.localise:
        return "did not end in time", []
    expected = pair.all_wishes("expects")
    found = []
    for kind, detail in pair.compare():
        reason = differ.on_purpose(kind, detail)
        if reason is None and kind in expected:
            reason = "the script says so"
        found.append((kind, detail, reason))
    for kind in expected:
        if kind not in {kind for kind, _, _ in found}:
            found.append(("expected difference is missing", kind, None))
    if pair.settings.held:
        return row_of(found), found
    least = int(pair.wish("records", "1" if not pair.settings.localise else "0"))
    if any(len(differ.records(pair, side)) < least for side in SIDES):
        found.append(("fewer records than the script says", str(least), None))
    if pair.was_cut:
        found.append(("did not end in time", "", None))
    return row_of(found), found


def row_of(found):
    if not found:
        return "identical"
    by_mistake = any(reason is None for _, _, reason in found)
    return "different by mistake" if by_mistake else "different on purpose"


ROWS = ["identical", "different on purpose", "different by mistake", "refused by sbatch too", "did not start in time", "did not end in time"]


def report(results, silent):
    table = Counter(row for row, _ in results.values())
    kinds = defaultdict(set)
    for name, (_, found) in results.items():
        for kind, _, reason in found:
            kinds[(reason is not None, kind, reason)].add(name)
    print(f"scripts {len(results)}; of them without any program run: {silent}")
    for row in ROWS:
        print(f"  {row:24} {table[row]:4}")
    for purpose, title in ((True, "on purpose"), (False, "by mistake")):
        print(f"\nkinds of differences {title}:")
        ordered = sorted(((kind, reason, names) for (is_p, kind, reason), names in kinds.items() if is_p == purpose),
                         key=lambda row: -len(row[2]))
        for kind, reason, names in ordered:
            print(f"  {len(names):4}  {kind}" + (f": {reason}" if reason else ""))
    print("\nscripts that differ by mistake:")
    for name, (row, found) in sorted(results.items()):
        for kind, detail, reason in found:
            if reason is None:
                print(f"  {name}: {kind}: {detail[:300]}")
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--localise", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--held", action="store_true", help="compare what the scheduler makes of the directives, and run nothing")
    parser.add_argument("--json")
    parser.add_argument("--scheduler", choices=("slurm", "torque", "openpbs"), default="slurm")
    settings = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("the jobs are an ordinary user's: run as root")
    settings.user = pwd.getpwnam(os.environ["DLRUN_TEST_USER"])
    settings.scheduler = schedulers.of(settings.scheduler)
    # Removed at the end, unless somebody wants to look. The nodes of the cluster see it, as they are on this machine.
    root = pathlib.Path(tempfile.mkdtemp(prefix="dlrun-same-", dir="/var/tmp"))
    root.chmod(0o755)
    settings.dlrun = root / "dlrun"
    shutil.copy(os.environ["DLRUN_TEST_BINARY"], settings.dlrun)
    settings.dlrun.chmod(0o755)
    results, silent = {}, 0
    try:
        pairs = [Pair(name, text, mode, root, settings) for name, text, mode in scripts(settings)]
        with ThreadPoolExecutor(settings.at_once) as pool:
            list(pool.map(Pair.run, pairs))
        for pair in pairs:
            results[pair.name] = verdict(pair)
            silent += pair.both_ran() and not differ.records(pair, "a")
    finally:
        if settings.keep:
            print(f"kept: {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)
    table = report(results, silent)
    if settings.json:
        pathlib.Path(settings.json).write_text(json.dumps(results, indent=1))
    is_bad = table["different by mistake"] or (not settings.localise and table["refused by sbatch too"])
    is_bad = is_bad or (not settings.localise and table["did not start in time"])
    sys.exit(1 if is_bad or not results else 0)


if __name__ == "__main__":
    main()
