"""How each scheduler takes a script, and what it knows of the job afterwards."""

import os
import re


class Slurm:
    """`sbatch` and `scontrol`."""

    prefix = "#SBATCH"
    kind = "slurm"
    submit = ["sbatch", "--parsable"]
    hold = ["sbatch", "--parsable", "--hold"]
    cancel = ["scancel"]
    over = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
    fields = """NumNodes NumCPUs NumTasks CPUs/Task ReqB:S:C:T TRES Socks/Node NtasksPerN:B:S:C CoreSpec MinCPUsNode
    MinMemoryNode MinMemoryCPU MinTmpDiskNode Features DelayBoot OverSubscribe Contiguous Licenses Network WorkDir TresPerNode
    TresPerJob TresPerTask TresPerSocket CpusPerTres MemPerTres TresBind TimeLimit TimeMin Deadline Dependency Requeue Restarts
    ExitCode DerivedExitCode JobState Reason MailUser MailType Nice Comment JobName Partition QOS Account ArrayTaskId
    ArrayTaskThrottle BatchFlag Switches wc KillOInInvalidDependent StdIn StdOut StdErr NtasksPerTRES:""".split()
    streams = ("StdOut", "StdErr")

    def __init__(self):
        self.variables = {"SLURM_CONF": os.environ["DLRUN_TEST_SLURM_CONF"]}
        self.path = []

    def id_of(self, answer):
        return answer.strip().split(";")[0]

    def look(self, run, job):
        """The jobs of this number, one for each element of an array: their fields; whether all are over."""
        text = run(["scontrol", "--oneliner", "show", "job", job])
        jobs = [dict(re.findall(r"(\S+?)=(.*?)(?= \S+?=|$)", line)) for line in text.splitlines() if line]
        return jobs, all(known.get("JobState", "").split()[0] in self.over for known in jobs)


class Pbs:
    """`qsub` and `qstat` of Torque and OpenPBS."""

    prefix = "#PBS"
    submit = ["qsub"]
    hold = ["qsub", "-h"]
    cancel = ["qdel"]
    fields = """Job_Name queue Resource_List.walltime Resource_List.ncpus Resource_List.nodect Resource_List.nodes Resource_List.mem
    Resource_List.place Resource_List.select Resource_List.mpiprocs Resource_List.neednodes Exit_status exit_status Hold_Types Join_Path
    Keep_Files Mail_Points Mail_Users Priority Rerunable umask Shell_Path_List job_array Checkpoint Account_Name depend
    group_list Output_Path Error_Path""".split()
    streams = ("Output_Path", "Error_Path")

    def __init__(self, kind):
        self.kind = kind
        self.is_openpbs = kind == "openpbs"
        self.path = [os.environ["DLRUN_TEST_OPENPBS_BIN" if self.is_openpbs else "DLRUN_TEST_TORQUE_BIN"]]
        names = ("PBS_CONF_FILE", "PBS_SERVER", "PBS_DEFAULT")
        self.variables = {name: os.environ[name] for name in names if name in os.environ}
        self.variables["DLRUN_SCHEDULER__KIND"] = kind

    def id_of(self, answer):
        return answer.strip()

    def look(self, run, job):
        text = run(["qstat", "-x", "-f", job] if self.is_openpbs else ["qstat", "-f", job])
        known = dict(re.findall(r"^ {4}(\S+) = (.*)$", text.replace("\n\t", ""), re.M))
        if not known:
            return [], True
        known["JobId"] = job
        normalise(known)
        return [known], known["job_state"] in "CF"


def kibibytes(size):
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", size.lower())
    return f"{int(found[1]) * 1024 ** ' kmgt'.index(found[2] or ' ') // 1024}kb" if found else size


def normalise(known):
    """Says the same request in one way: sizes in KiB, chunks with their defaults, `nodes=` as the `select` that OpenPBS makes of it."""
    for key in ("Resource_List.mem", "Resource_List.pmem"):
        if key in known:
            known[key] = kibibytes(known[key])
    known["Mail_Points"] = "".join(sorted(known.get("Mail_Points", "a")))
    select = known.get("Resource_List.select")
    if select is None:
        return
    chunks = []
    for chunk in select.split("+"):
        count, *words = chunk.split(":") if chunk[0].isdigit() else ("1", *chunk.split(":"))
        given = {"ncpus": "1", "mpiprocs": "1", **dict(word.partition("=")[::2] for word in words)}
        # It only sets OMP_NUM_THREADS, which is a variable of the job file.
        given.pop("ompthreads", None)
        given = {name: kibibytes(value) if name == "mem" else value for name, value in given.items()}
        chunks.append(count + "".join(f":{name}={given[name]}" for name in sorted(given)))
    known["Resource_List.select"] = "+".join(chunks)
    known.pop("Resource_List.nodes", None)
    known.pop("Resource_List.mpiprocs", None)
    # One chunk lies on one node wherever it is placed.
    if len(chunks) == 1 and chunks[0].startswith("1:") and known.get("Resource_List.place") in ("pack", "free", "scatter", "vscatter"):
        known["Resource_List.place"] = "one chunk"


def of(kind):
    return Slurm() if kind == "slurm" else Pbs(kind)
