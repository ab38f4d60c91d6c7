"""Other ways to predict the trainings of tests/fixtures/model, judged as tests/it/model_trainings.rs judges dlrun.

    pip install scikit-learn slurmise zstandard
    python -W ignore tests/bench/trainings.py tests/fixtures/model/trainings-2026-11.jsonl.zst
    python -W ignore tests/bench/trainings.py tests/fixtures/model/trainings-2026-11-c.jsonl.zst 12

Each run from the 41st on, or after as many as the second argument says, is predicted from those before it; what is fitted is fitted again
after each ten.
"""

import json
import math
import pathlib
import statistics
import sys
import tempfile

import zstandard
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge
from slurmise.api import Slurmise as Api
from slurmise.job_data import JobData
from slurmise.job_database import JobDatabase

REFIT = 10


def read(path):
    """Return the runs in the order of submission; one that hit its limit counts with the time that it had."""
    raw = pathlib.Path(path).read_bytes()
    raw = zstandard.ZstdDecompressor().decompress(raw) if path.endswith(".zst") else raw
    rows = [json.loads(line) for line in raw.splitlines()]
    threads = {row["run_id"]: float(row["omp_num_threads"]) for row in rows if row["kind"] == "usage"}
    epochs, runs = {}, []
    for row in rows:
        if row["kind"] == "timing" and not row["warmup"] and row["seconds"]:
            epochs.setdefault(row["run_id"], []).append(row["seconds"])
    for row in rows:
        if row["kind"] == "run":
            identity = row.get("identity") or {"key": f"{row['model']} {row['framework']}", "numbers": {}}
            declared = {name: row[name] for name in ("batch_size", "epochs") if row[name]}
            numbers = identity["numbers"] | declared | {"threads": threads[row["run_id"]]}
            runs.append({
                "at": row["submitted_at_ms"], "key": identity["key"], "code": identity.get("script_digest"),
                "numbers": {plain(name): math.log(value) for name, value in numbers.items()},
                "compiler": row["framework_compiler"] or "none",
                "epoch": statistics.median(epochs[row["run_id"]]) if row["run_id"] in epochs else None,
                "run": (row["ended_at_ms"] - row["started_at_ms"]) / 1e3,
            })
    return sorted(runs, key=lambda run: run["at"])


def plain(name):
    """Return a name of letters and digits."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def distance(one, other):
    """Sum of the differences of the logarithms of all numbers, and 2 for another compiler, between runs of one workload."""
    parts = (abs(one["numbers"].get(name, 0.0) - value) for name, value in other["numbers"].items())
    return sum(parts) + 2.0 * (one["compiler"] != other["compiler"])


def nearest(run, before, figure):
    """The newest of the runs that are nearest."""
    known = [other for other in reversed(before) if other[figure] and other["key"] == run["key"]]
    return min(known, key=lambda other: distance(run, other))[figure] if known else None


def last_two(run, before, figure):
    """Tsafrir's: the mean of the last two of the same configuration."""
    same = [other[figure] for other in before if other[figure] and other["key"] == run["key"] and distance(run, other) == 0.0][-2:]
    return statistics.mean(same) if len(same) == 2 else nearest(run, before, figure)


class Regression:
    """A regression of the logarithm of the time by those of the numbers, and by compiler and workload."""
    def __init__(self, make):
        self.make, self.fits = make, {}

    def __call__(self, run, before, figure):
        known = [other for other in before if other[figure]]
        if all(other["key"] != run["key"] for other in known):
            return None
        if figure not in self.fits or len(before) % REFIT == 0:
            names = sorted({name for other in known for name in self.columns(other)})
            table = [[self.columns(other).get(name, 0.0) for name in names] for other in known]
            self.fits[figure] = names, self.make().fit(table, [math.log(other[figure]) for other in known])
        names, fit = self.fits[figure]
        return math.exp(fit.predict([[self.columns(run).get(name, 0.0) for name in names]])[0])

    @staticmethod
    def columns(run):
        """Return all but the figures as numbers; what they do is another thing in each workload."""
        numbers = run["numbers"] | {run["compiler"]: 1.0}
        return {f"{run['key']} {name}": value for name, value in numbers.items()} | {run["key"]: 1.0} | numbers


class Slurmise:
    """slurmise 1.0, a polynomial for each job and compiler; seconds in place of its minutes, its defaults (fewer than 13 runs) do not count."""
    def __init__(self, runs, folder):
        text = f'[slurmise]\nbase_dir = "{folder}"\n'
        for job, run in {plain(run["key"]): run for run in runs}.items():
            text += f'[slurmise.job.{job}.variables]\ncompiler = {{ type = "category" }}\n'
            text += "".join(f'{name} = {{ type = "numeric" }}\n' for name in run["numbers"])
        pathlib.Path(folder, "slurmise.toml").write_text(text)
        self.api, self.known = Api(f"{folder}/slurmise.toml"), 0

    def __call__(self, run, before, figure):
        for number in range(self.known, len(before)):
            self.api.raw_record(self.data(before[number], str(number), before[number][figure]))
        self.known = len(before)
        with JobDatabase.get_database(self.api.configuration.db_filename) as database:
            for query, jobs in list(database.iterate_database()) if len(before) % REFIT == 0 else ():
                if len(jobs) > 1:
                    self.api._update_model(query, jobs)
        said, warnings = self.api.raw_predict(self.data(run))
        return None if any("Returning default" in text for text in warnings) else said.runtime

    @staticmethod
    def data(run, number=None, seconds=None):
        numbers = {name: math.exp(value) for name, value in run["numbers"].items()}
        return JobData(plain(run["key"]), number, {"compiler": run["compiler"]}, numbers, seconds and 1.0, seconds)


def has_limit(run, before):
    """Whether dlrun's `auto` has a limit: two runs of the same program, code and compiler before, whose numbers hold this one's."""
    same = [other["numbers"] for other in before if all(other[part] == run[part] for part in ("key", "code", "compiler"))]
    return len(same) > 1 and all(min(o[name] for o in same) <= own <= max(o[name] for o in same) for name, own in run["numbers"].items())


def main():
    """Print the table of one fixture."""
    runs, first = read(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    ways = {"nearest": nearest, "last two": last_two, "ridge": Regression(lambda: Ridge(0.1))}
    ways["gradient boosting"] = Regression(lambda: GradientBoostingRegressor(random_state=1))
    ways["slurmise"] = Slurmise(runs, tempfile.mkdtemp())
    for figure, name in [(figure, name) for figure in ("epoch", "run") for name in ways if (figure, name) != ("epoch", "slurmise")]:
        judged = [(run, runs[:at]) for at, run in enumerate(runs) if at >= first and run[figure]]
        said = [(run, before, seconds) for run, before in judged if (seconds := ways[name](run, before, figure))]
        errors = [abs(math.log(max(seconds, 1e-9) / run[figure])) for run, _, seconds in said]
        print(f"{figure}, {name}: {len(said)} of {len(judged)}, off by {math.expm1(statistics.median(errors or [0])):.3f}")
        limits = [(seconds, run["run"]) for run, before, seconds in said if figure == "run" and has_limit(run, before)]
        for scale in (1, 60) if limits else ():
            pairs = [(1.5 * scale * seconds + 60, scale * came) for seconds, came in limits]
            short = sum(limit < came for limit, came in pairs)
            waste = statistics.median(max(0.0, limit - 60 - came) / limit for limit, came in pairs)
            print(f"  half as much again and 60 s, × {scale}: {short} of {len(pairs)} too short, waste {waste:.2f}")


if __name__ == "__main__":
    main()
