"""What differs between the two runs of a script, and what of that is on purpose."""

import os
import re
from collections import defaultdict

# Differences that are wanted, as docs/same.md says them: a pattern of the kind, perhaps one of the detail, the reason.
ON_PURPOSE = [
    (r"env added DLRUN_(RUN_ID|INSIDE|EVENTS|ARRAY_INDEX)", "", "who the run is, and where events go"),
    (r"env added PYTHONUNBUFFERED", "", "output line by line"),
    (r"(field StdOut|field StdErr|field Output_Path|field Error_Path|field Join_Path)", "", "NAME-JOBID.out in the working directory"),
    (r"standard error", r"the job's error file -> the job's output file$", "NAME-JOBID.out in the working directory"),
    (r"env (added|lost|changed) _", "", "the program that a shell started last"),
    (r"env changed SHLVL", "", "a kept script runs below the batch script's shell"),
    (r"field MailType, details", "", "a failure's mail comes for a dependency that never holds too; none for stage-out"),
    (r"(field JobName|env changed SLURM_JOB_NAME)", r"^\S*[^\w.+-]\S* ->", "a name that no file can have"),
    (r"env lost SLURM_OPEN_MODE", "", "output is appended to the job's own file, not to those of its steps"),
    (r"env changed \w+|arguments", r"job\.sh.* -> .*(\(null\)|/\.local/state/dlrun/runs/)", "Slurm got the script through a pipe and knows no file of it"),
    (r"placed on other nodes", "", "Slurm took those that were free"),
    (r"env lost OLDPWD|field WorkDir", "", "a simple script's `cd` is `run.workdir`"),
    (r"text printed", r"lost \[.*added \[\"cat: '\(null\)': No such file", "Slurm got the script through a pipe and knows no file of it"),
    (r"signals ignored", r"0000000000001080 -> 0000000000000080$", "SIGPIPE, which Torque's daemon ignores, is at its default"),
    (r"open files", r"'9'\] -> \[[^9]*\]$", "descriptor 9 is dlrun's own script's"),
    (r"field Keep_Files", "", "NAME-JOBID.out in the working directory"),
    (r"field Mail_Users", r"^\S*[$]\S* -> ", "an address with a variable in it, which PBS does not read either"),
    (r"field Resource_List.place", r"-> scatter", "each chunk is a node"),
    (r"field Shell_Path_List", r" -> /bin/bash$", "the rendered script is bash's"),
    (r"env changed OLDPWD", r"^/home/", "a PBS job starts in run.workdir"),
    (r"standard input", r"\('pipe', ''\) -> \('/dev/null', ''\)", "PBS feeds the script through a pipe"),
    (r"standard (output|error)", r"/spool/JOB\.(OU|ER) -> BASE/work/\S+\.out$", "NAME-JOBID.out in the working directory"),
    (r"field MailUser", r"-> $", "without an event no mail is sent"),
    (r"field (ExitCode|JobState|Reason|DerivedExitCode)", r"^0:(\d+) -> 1\d\d:0$|NonZeroExitCode", "a signal is exit code 128 + n"),
    (r"process group", r"leads its group.* -> in its parent's group", "with `exec` a program takes the place of the batch shell, here below it"),
    (r"parent", r"-> dlrun$", "dlrun starts the program of a simple script, or the script"),
]


def on_purpose(kind, detail):
    for pattern, detail_pattern, reason in ON_PURPOSE:
        if re.fullmatch(pattern, kind) and (not detail_pattern or re.search(detail_pattern, detail)):
            return reason
    return None


# What dlrun refuses to convert or to submit, and says so.
REFUSED = [
    (r"is not a file|is not an executable file|is not here|is not a directory", "a program that does not exist is refused before the submission"),
    (r"several components \(heterogeneous\)", "a heterogeneous job is refused"),
]


def refused_on_purpose(said):
    return next((reason for pattern, reason in REFUSED if re.search(pattern, said)), None)


# Of these only that they are set is compared, and how many digits and commas they have where they list something.
RUN_BY_RUN = re.compile(
    r"SLURM_(JOB_ID|JOBID|TASK_PID|NODELIST|JOB_NODELIST|STEP_NODELIST|NODEID|TOPOLOGY_ADDR|LAUNCH_NODE_IPADDR|"
    r"SRUN_COMM_PORT|SRUN_COMM_HOST|STEP_LAUNCHER_PORT|ARRAY_JOB_ID|JOB_START_TIME|JOB_END_TIME|STEP_TASKS_PER_NODE_|"
    r"STEPID_|CPU_BIND_LIST|CPU_BIND|STEP_RESV_PORTS)|PBS_(JOBID|NODEFILE|JOBCOOKIE|MOMPORT|NODENUM|TASKNUM|O_HOST)|SLURMD_NODENAME|SRUN_DEBUG_|_|BASHPID|HOSTNAME|PPID"
)
LISTED = re.compile(r"CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|ZE_AFFINITY_MASK|SLURM_(JOB|STEP)_GPUS")

LIMIT = re.compile(r"^(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)", re.M)


class Record:
    """What one program found."""

    def __init__(self, text, pair, side):
        self.parts = {}
        at = 0
        while at < len(text):
            key, at = text[at:text.index(b"\n", at)].decode(), text.index(b"\n", at) + 1
            size, at = int(text[at:text.index(b"\n", at)]), text.index(b"\n", at) + 1
            self.parts[key], at = text[at:at + size].decode("utf-8", "replace"), at + size + 1
        self.pair, self.side = pair, side
        self.env = dict(word.partition("=")[::2] for word in self.parts["environ"].split("\0") if word)

    def is_dlruns_own(self):
        """The batch script starts `date` and `sleep` for its marks."""
        return (self.parts["argv"].split("\0") in (["date", "+%s%3N"], ["sleep", "0.1"]) or self.parts["argv"].startswith("sync\0/")) and "DLRUN_PLAN" in self.env

    def normal(self, text):
        text = text.replace(str(self.pair.side(self.side)), "BASE")
        for job in self.pair.known[self.side]:
            for key in ("JobId", "ArrayJobId"):
                if key in job and not job[key].isdigit():
                    text = text.replace(job[key], "JOB")
                elif key in job:
                    text = re.sub(rf"(?<!\d){job[key]}(?!\d)", "JOB", text)
        return text

    def words(self, part):
        return self.normal(self.parts[part]).split("\0")

    def rank(self, with_step):
        names = ["SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "SLURM_RESTART_COUNT"] + ["SLURM_STEP_ID"] * with_step
        return [self.env.get(name, "") for name in names]

    def status(self, key):
        found = re.search(rf"^{key}:\s*(.*)$", self.parts["status"], re.M)
        return found[1].strip() if found else ""

    @staticmethod
    def fields(stat):
        return stat.rsplit(") ", 1)[-1].split()

    def relations(self):
        pid = self.parts["stat"].split(" ")[0]
        own, parent = self.fields(self.parts["stat"]), self.fields(self.parts["parent stat"])
        parent_pid = own[1]
        says = []
        says.append("leads its group" if own[2] == pid else "in its parent's group" if parent and own[2] == parent[2] else "in another group")
        says.append("leads its session" if own[3] == pid else "parent leads the session" if own[3] == parent_pid else "in an older session")
        return ", ".join(says)

    def parent(self):
        exe = os.path.basename(self.parts["parent exe"].replace(" (deleted)", ""))
        argv = self.words("parent argv")
        flags = [word for word in argv[1:] if word.startswith("-")][:3] if exe in ("bash", "dash") else []
        return " ".join([exe, *flags])

    def stream(self, number):
        target = self.parts["streams"].split("\0")[number]
        if target.startswith(("pipe:", "socket:")):
            return target.split(":")[0]
        for job in self.pair.known[self.side]:
            files = [job.get(key, "").split(":")[-1] for key in self.pair.settings.scheduler.streams]
            for file, what in zip(files, ("output", "error")):
                if re.fullmatch(re.sub(r"%\\?\w", ".*", re.escape(file)), target):
                    return f"the job's {'output' if files[0] == files[1] else what} file"
        return self.normal(target)


def records(pair, side):
    if side not in pair.known:
        return []
    cache = pair.__dict__.setdefault("records_of", {})
    if side not in cache:
        files = sorted((pair.side(side) / ".records").iterdir())
        files = [path for path in files if not path.name.endswith(".part")][:400]
        all_of_them = [Record(path.read_bytes(), pair, side) for path in files]
        cache[side] = [record for record in all_of_them if not record.is_dlruns_own()]
    return cache[side]


def differences(pair):
    """All differences, as (kind, detail)."""
    if pair.settings.held:
        yield from of_jobs(pair)
        return
    grouped = [defaultdict(list), defaultdict(list)]
    for group, side in zip(grouped, "ab"):
        for record in records(pair, side):
            rank = record.rank(with_step=not is_unordered(pair))
            group[(record.words("argv")[0], *rank)].append(record)
        # Programs that run at once begin in any order.
        for records_of_name in group.values():
            if is_unordered(pair):
                records_of_name.sort(key=lambda record: record.words("argv"))
    before, after = grouped
    for key in sorted(set(before) | set(after)):
        if len(before[key]) != len(after[key]) and not pair.was_cut:
            yield "programs", f"{' '.join(key)}: {len(before[key])} -> {len(after[key])}"
        for one, other in zip(before[key], after[key]):
            yield from of_records(one, other)
    yield from of_jobs(pair)
    if not pair.was_cut:
        yield from of_outputs(pair)


def is_unordered(pair):
    return re.search(r"&\s*$|\bxargs\b|^\s*parallel\b|[<>]\(|\|", pair.text, re.M) is not None


# What follows from the nodes on which Slurm found room.
PLACED = re.compile(
    r"env changed SLURM_(CPUS_ON_NODE|JOB_CPUS_PER_NODE\w*|TASKS_PER_NODE|STEP_TASKS_PER_NODE|JOB_NUM_NODES|NNODES|GTIDS|"
    r"LOCALID)|field (NumNodes|TRES)|limit Max resident set"
)
ASKED = re.compile(r"field (NumTasks|NumCPUs|NtasksPerN|CPUs/Task|ReqB|Min)")


def cpus(nodes):
    """`13,1(x3)` has 16 CPUs."""
    return sum(int(n) * int(times or 1) for n, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", nodes))


def settled(found):
    """The differences; those in which the same request was placed on other nodes are one kind."""
    found = set(found)
    moved = [detail.split(" -> ") for kind, detail in found if kind == "env changed SLURM_JOB_CPUS_PER_NODE"]
    is_alike = moved and all(cpus(was) == cpus(is_now) for was, is_now in moved)
    if is_alike and not any(ASKED.match(kind) for kind, _ in found):
        found = {("placed on other nodes", kind) if PLACED.fullmatch(kind) else (kind, detail) for kind, detail in found}
    return sorted(found)


def of_records(one, other):
    def both(kind, read, label=""):
        was, is_now = read(one), read(other)
        if was != is_now:
            yield kind, f"{label}{was} -> {is_now}"

    name = one.words("argv")[0] + ": "
    yield from both("arguments", lambda record: [re.sub(r"\bn[1-4]\b|\d{4,}", "#", word) for word in record.words("argv")])
    yield from both("directory", lambda record: record.normal(record.parts["cwd"]), name)
    yield from both("umask", lambda record: record.status("Umask"), name)
    for key, kind in (("SigIgn", "signals ignored"), ("SigBlk", "signals blocked"), ("Cpus_allowed_list", "affinity"),
                      ("NoNewPrivs", "privileges"), ("CapEff", "capabilities"), ("Groups", "groups")):
        yield from both(kind, lambda record: record.status(key), name)
    limits = [dict((found[1].strip(), (found[2], found[3])) for found in LIMIT.finditer(record.parts["limits"])) for record in (one, other)]
    for limit in sorted(set(limits[0]) | set(limits[1])):
        if limits[0].get(limit) != limits[1].get(limit):
            yield f"limit {limit}", f"{name}{limits[0].get(limit)} -> {limits[1].get(limit)}"
    yield from both("niceness", lambda record: record.fields(record.parts["stat"])[16], name)
    yield from both("OOM score", lambda record: record.parts["oom"].strip(), name)
    yield from both("standard input", lambda record: (record.stream(0), record.normal(record.parts["stdin"])), name)
    yield from both("standard output", lambda record: record.stream(1), name)
    yield from both("standard error", lambda record: record.stream(2), name)
    yield from both("open files", lambda record: record.parts["open"].split("\0"), name)
    yield from both("parent", Record.parent, name)
    yield from both("process group", Record.relations, name)
    yield from of_environments(one, other)


def is_step(name, record):
    """Steps that begin at once have any numbers."""
    return name in ("SLURM_STEP_ID", "SLURM_STEPID") and is_unordered(record.pair)


def of_environments(one, other):
    for name in sorted(set(one.env) | set(other.env)):
        if (RUN_BY_RUN.fullmatch(name) or is_step(name, one)) and name in one.env and name in other.env:
            continue
        if name not in one.env:
            yield f"env added {name}", other.normal(other.env[name])[:100]
        elif name not in other.env:
            yield f"env lost {name}", one.normal(one.env[name])[:100]
        else:
            was, is_now = one.normal(one.env[name]), other.normal(other.env[name])
            if LISTED.fullmatch(name):
                was, is_now = (re.sub(r"\d+", "#", value) for value in (was, is_now))
            # A node, a process or a moment in the script's own variable.
            if not name.startswith(("SLURM", "PBS")):
                was, is_now = (re.sub(r"\bn[1-4]\b|\d{4,}", "#", value) for value in (was, is_now))
            if was != is_now:
                yield f"env changed {name}", f"{was[:140]} -> {is_now[:140]}"


def of_jobs(pair):
    def view(side, key):
        record = Record(b"argv\n0\n\nenviron\n0\n\n", pair, side)
        return sorted({record.normal(job.get(key, "")) for job in pair.known[side]})

    if len(pair.known["a"]) != len(pair.known["b"]):
        yield "jobs of the array", f"{len(pair.known['a'])} -> {len(pair.known['b'])}"
    for key in pair.settings.scheduler.fields:
        was, is_now = view("a", key), view("b", key)
        if key == "TRES":
            was, is_now = ([re.sub(r",?billing=\d+", "", value) for value in values] for values in (was, is_now))
        if key == "MailType" and was != is_now:
            main = [sorted(set(",".join(values).strip().split(",")) - {"INVALID_DEPEND", "STAGE_OUT"}) for values in (was, is_now)]
            yield "field MailType" + (", details" if main[0] == main[1] else ""), f"{was} -> {is_now}"
        elif was != is_now:
            yield f"field {key}", f"{','.join(was)} -> {','.join(is_now)}"


# Lines that name a node, a time or a number that is another in each run.
UNSTABLE = re.compile(r"^(real|user|sys)\t.*|CUDA_VISIBLE_DEVICES=[\d,]+|\bn[1-4](?:\[[\d,-]+\])?\b|n\[[\d,-]+\]|\d{4,}|\d\d:\d\d:\d\d|0x[0-9a-f]+|\b\d+\.\d+\b")


def of_outputs(pair):
    def lines(side):
        record = Record(b"argv\n0\n\nenviron\n0\n\n", pair, side)
        found = (UNSTABLE.sub("#", record.normal(line)) for line in pair.output(side))
        script = re.compile(r"/\S*slurm_script|BASE/[^:]*?/job\.sh|\bjob\.sh\b")
        # `srun` says whether it had to wait; the environment is compared by itself.
        aside = re.compile(r"srun: (Job|Step|job) |DLRUN_[A-Z_]+=|PYTHONUNBUFFERED=|SLURM\w+=|$")
        return sorted(script.sub("SCRIPT", line) for line in found if not aside.match(line))

    was, is_now = lines("a"), lines("b")
    if was != is_now:
        lost, added = list(was), []
        for line in is_now:
            lost.remove(line) if line in lost else added.append(line)
        yield "text printed", f"lost {lost[:3]}, added {added[:3]}"
    made = [{UNSTABLE.sub("#", Record(b"argv\n0\n\nenviron\n0\n\n", pair, side).normal(name)) for name in pair.files(side)} for side in "ab"]
    if made[0] != made[1]:
        yield "files", f"lost {sorted(made[0] - made[1])[:4]}, added {sorted(made[1] - made[0])[:4]}"
