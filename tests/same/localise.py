"""Fits a batch script of another site to the test cluster, and finds the programs that it may start."""

import os
import re

# Real in both runs: harmless, quick, and part of what a script does.
REAL = set("""
[ awk basename bash cat chmod cmp cp cut dash diff dirname echo egrep env expr false fgrep find grep gunzip gzip head join
ln ls mkdir mktemp mv nice nl nohup od paste printenv printf pwd readlink realpath rev rm rmdir sed seq setsid sh sort split
srun stat stdbuf tac tail tee test time timeout touch tr true tty uname uniq wc xargs yes
""".split())
# No site has a program of this name.
FUNCTIONS = {"module", "ml"}
SUBMITTERS = set("sbatch squeue sinfo sacct scancel scontrol qsub qstat".split())
# Real too in scripts of our own.
REAL_HERE = set("date hostname kill perl ps sleep taskset which".split())
WORD = re.compile(r"(?<![\w./$\-])[A-Za-z_\[][\w.+-]*")

DROPPED = set("""
partition account qos constraint reservation nodelist exclude clusters cluster-constraint dependency begin licenses chdir
workdir wckey tmp bb bbf switches hold nodefile uid gid reboot network deadline prefer sockets-per-node cores-per-socket
threads-per-core extra-node-info ntasks-per-core ntasks-per-socket gpus-per-socket mincpus contiguous core-spec mem-bind
acctg-freq power delay-boot gres-flags gpu-freq cpu-freq container priority nice thread-spec spread-job use-min-nodes
wait test-only
""".split())
SHORT = dict(p="partition", A="account", q="qos", C="constraint", w="nodelist", x="exclude", M="clusters", d="dependency",
             b="begin", L="licenses", D="chdir", H="hold", F="nodefile", B="extra-node-info", S="core-spec", W="wait",
             o="output", e="error", N="nodes", n="ntasks", c="cpus-per-task", t="time", a="array", G="gpus",
             J="job-name", m="m", i="input", s="oversubscribe", k="no-kill", O="overcommit", Q="quiet", v="verbose")
LONG = dict(out="output", err="error", part="partition", const="constraint", depend="dependency")
MOST = {"nodes": 4, "ntasks": 16, "ntasks-per-node": 8, "cpus-per-task": 4, "ntasks-per-gpu": 2, "cpus-per-gpu": 2}
MEMORY = {"mem": 16000, "mem-per-cpu": 1000, "mem-per-gpu": 4000}


def script(text, base, work, record):
    """The script with this cluster's words, and with what it changes into, reads and starts made under `base`."""
    lines, is_head = [], True
    for line in text.split("\n"):
        if line.startswith("#SBATCH"):
            line = directive(line) if is_head else line
        elif line.startswith("#PBS"):
            line = pbs_directive(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            is_head = False
            line = places(line, base)
        lines.append(line)
    text = "\n".join(lines)
    make_places(text, base, work, record)
    return text


def directive(line):
    """One `#SBATCH` line; a line that is left without options becomes a comment."""
    ending = "\r" if line.endswith("\r") else ""
    words, out, at = line[len("#SBATCH"):].split("#")[0].split(), [], 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, sep, value = word[2:].partition("=")
            if not sep and at < len(words) and not words[at].startswith("-"):
                value, sep = words[at], " "
                at += 1
        elif word.startswith("-") and len(word) > 1:
            name, value, sep = SHORT.get(word[1], word[1]), word[2:], ""
            if not value and at < len(words) and not words[at].startswith("-"):
                value, sep = words[at], " "
                at += 1
            kept = fitted(name, value)
            if kept is not None:
                out.append(word[:2] + sep + kept)
            continue
        else:
            out.append(word)
            continue
        kept = fitted(LONG.get(name, name), value)
        if kept is not None:
            out.append(f"--{name}{sep}{kept}")
    return "#SBATCH " + " ".join(out) + ending if out else "#SBATCH --comment=fitted" + ending


def pbs_directive(line):
    """One `#PBS` line without queue, account and site."""
    ending = "\r" if line.endswith("\r") else ""
    line = re.sub(r"\s-(q|A|P|S|d|o|e|W\s*group_list)\s*=?\s*\S+", "", line.rstrip("\r"))
    return ("# " if line.strip() == "#PBS" else "") + line + ending


def fitted(name, value):
    """The option's value on this cluster; None leaves the option out."""
    if name in DROPPED:
        return None
    if name in ("output", "error") and "/" in value:
        return value.rstrip('"').rsplit("/", 1)[1]
    if name in ("input",):
        return None
    if name in MOST:
        return re.sub(r"\d+", lambda n: str(min(int(n[0]), MOST[name])), value)
    if name in MEMORY:
        return memory(value, MEMORY[name])
    if name == "array":
        first = re.match(r"\d+", value)
        return f"{first[0]}-{int(first[0]) % 90 + 1}" + ("%1" if "%" in value else "") if first and int(first[0]) < 90 else "0-1"
    if name == "gres" or name.startswith("gpus"):
        if name == "gres" and not value.startswith("gpu"):
            return None
        value = re.sub(r"^gpu:[A-Za-z][\w.-]*", "gpu:v100", value) if name == "gres" else re.sub(r"^[A-Za-z][\w.-]*", "v100", value)
        return re.sub(r"(?<![A-Za-z\d])\d+", lambda n: str(min(int(n[0]), 4)), value)
    if name == "time":
        days = re.match(r"(\d+)-", value)
        hours = re.match(r"(\d+):\d+:\d+", value)
        minutes = re.match(r"(\d+)(:\d+)?$", value)
        long = (days and int(days[1]) > 6) or (hours and int(hours[1]) > 160) or (minutes and int(minutes[1]) > 10000)
        return "6-00:00:00" if long else value
    return value


def memory(value, most):
    number = re.match(r"(\d+)\s*([KMGT]?)", value, re.I)
    if not number:
        return value
    mib = int(number[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1 << 20}[number[2].upper()]
    return f"{most}M" if mib > most else value


# Absolute paths that are not the system's.
SITE_PATH = re.compile(r"(?<![\w.$}/:~-])(?<![\w}][\"'])/(?!(?:bin|usr/bin|etc|dev|proc|tmp|sys|var/tmp)\b)([A-Za-z_][\w.-]*)(?=[/\s\"';)]|$)")


# A script must not submit or cancel anything, and the submission itself finds these in the same PATH.
SCHEDULER = re.compile(r"\b(sbatch|squeue|sinfo|sacct|scancel|salloc|sacctmgr|scontrol(?=\s+(?!show\b)))(?![\w./-])")


def places(line, base):
    line = SCHEDULER.sub(r"\1_again", line)
    return SITE_PATH.sub(lambda found: f"{base}/site/{found[1]}", line)


def make_places(text, base, work, record):
    """Directories that the script changes into, files that it reads as shell text, programs that it names by their path."""
    plain = re.compile(r"[\w./+-]+")

    def inside(word):
        word = word.strip("\"'")
        if not plain.fullmatch(word) or ".." in word.split("/"):
            return None
        path = os.path.normpath(os.path.join(work, word))
        return path if path.startswith(f"{base}/") else None

    for word in re.findall(r"(?:^|[;&|]\s*)\s*(?:cd|pushd)\s+(\S+)", text, re.M):
        if path := inside(word.rstrip(";")):
            os.makedirs(path, exist_ok=True)
    for word in re.findall(r"(?:^|[;&|]\s*)\s*(?:source|\.)\s+(\S+)", text, re.M):
        if (path := inside(word.rstrip(";"))) and not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as out:
                name = os.path.basename(path)
                out.write(f'export SAME_SOURCED="$SAME_SOURCED {name}"\nexport PATH={base}/site/{name}.d:"$PATH"\n')
    for word in re.findall(r"(?:^|[;&|(]|\bsrun|\bexec|\btime|\bmpirun|\bmpiexec)\s*((?:\./|/)[\w./+-]+)", text, re.M):
        if (path := inside(word)) and not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            link(record, path)


def make_programs_files(text, base, work):
    """The files behind `python` and its like, without which dlrun would refuse the job before the scheduler saw it."""
    for word in re.findall(r"(?:python3?|perl|Rscript|julia|bash|sh)\s+([\w./+-]+\.\w+)", text):
        path = os.path.normpath(os.path.join(work, word))
        if path.startswith(f"{base}/") and not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()


def programs(text, is_foreign):
    """Any word of the commands that may be a program and is not a real one here: over-many stand-ins do no harm."""
    commands = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    real = REAL | SUBMITTERS if is_foreign else REAL | SUBMITTERS | REAL_HERE
    words = set(WORD.findall(commands)) - FUNCTIONS
    return sorted(word for word in words if word not in real and len(word) < 60)


def link(record, path):
    if not os.path.lexists(path):
        os.link(record, path)
