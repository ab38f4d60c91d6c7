#!/usr/bin/env python3
"""Renew tests/fixtures/advisories.toml: what RustSec knows against the crates in Cargo.lock.

    git clone https://github.com/rustsec/advisory-db && tests/advisories.py advisory-db

Only the versions are kept of each advisory; the texts are in the public domain (CC0) and at https://rustsec.org/advisories/ID.html.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def main():
    repository = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)

    def git(*words):
        return subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True, check=True).stdout

    lock = tomllib.loads((HERE / "../Cargo.lock").read_text())
    crates = sorted({package["name"] for package in lock["package"]})
    paths = [path for path in git("ls-tree", "-r", "--name-only", "HEAD", "crates/").split() if path.split("/")[1] in crates]
    lines = []
    for path in paths:
        front, title = re.match(r"```toml\n(.*?)\n```\s+# ([^\n]*)", git("show", f"HEAD:{path}"), re.S).groups()
        about = tomllib.loads(front)
        if "withdrawn" in about["advisory"]:
            continue
        versions = about.get("versions", {})
        fine = versions.get("patched", []) + versions.get("unaffected", [])
        told = {"id": about["advisory"]["id"], "crate": about["advisory"]["package"], "title": title, "fine": fine}
        lines.append("    { " + ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in told.items()) + " },")
    commit, date = git("log", "-1", "--format=%H %cs").split()
    (HERE / "fixtures/advisories.toml").write_text(
        f'# RustSec advisory-db at the given commit; made by tests/advisories.py.\ndate = "{date}"\ncommit = "{commit}"\n'
        f"# Crates that were looked for.\ncrates = {json.dumps(crates)}\nadvisories = [\n" + "\n".join(sorted(lines)) + "\n]\n"
    )


main()
