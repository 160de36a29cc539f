#!/usr/bin/env python3
"""Checks that sources include what they use, in seconds.

    check_includes.py

The build compiles several sources together (KUMIKO_UNITY), so another source may hide a missing
#include. This check reads text: a function that a header of the project declares may be called only
in files that include the header, directly or through others. `./run check` parses every file alone,
which finds all missing headers, and takes long.
"""
import functools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Compiled alone, or parts of a header in another folder.
LEFT_OUT = ("tests/ops/", "docs/", "sim/kernels/", "cmake/", "bench/peers_onednn", "bench/peers_libxsmm", "bench/peers_xnnpack")

# Functions whose names have several words. Shorter names, and those of types, are also names of
# members and of locals.
FUNCTION = re.compile(r"^(?!return|using|else|struct|class|enum|namespace|template|typedef|#)"
                      r"\w[\w:<>,&*\[\] ]*?[ &*>](\w+_\w+)\(", re.M)
# Members, and functions in functions.
LOCAL = re.compile(r"^ +[\w:<>,&* ]+[ &*](\w+_\w+)(?:\(|;| =)", re.M)
CALL = re.compile(r"(?<![\w.>:~])(?:kumiko::)?(\w+_\w+)(?:<[\w:, ]+>)?\(")


@functools.cache
def text(path):
    """The file without comments and strings, and the project's headers that it includes."""
    with open(os.path.join(ROOT, path)) as file:
        source = file.read()
    source = re.sub(r'R"(\w*)\(.*?\)\1"', '""', source, flags=re.S)
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.S)
    source = re.sub(r"//[^\n]*", "", source)
    includes = re.findall(r'^\s*#\s*include "(.*?)"', source, re.M)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', source), includes


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.h", "*.cpp"], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.split()
    files = [f for f in listed if not f.startswith(LEFT_OUT) and os.path.exists(os.path.join(ROOT, f))]
    known = set(files)

    @functools.cache
    def included(path):
        found, open_ = {path}, [path]
        while open_:
            for name in text(open_.pop())[1]:
                if name in known and name not in found:
                    found.add(name)
                    open_.append(name)
        return frozenset(found)

    declared = {}
    for f in files:
        for name in FUNCTION.findall(text(f)[0]) if f.endswith(".h") else []:
            declared.setdefault(name, set()).add(f)

    failed = 0
    for f in files:
        source = text(f)[0]
        local = {name for g in included(f) for name in LOCAL.findall(text(g)[0])} | set(FUNCTION.findall(source))
        for name in sorted(set(CALL.findall(source)) & declared.keys() - local):
            others = {h for h in declared[name] if f.startswith("tests/") or not h.startswith("tests/")}
            if others and not others & included(f):
                print(f"{f}: {name} is declared in {', '.join(sorted(others))}, which it does not include")
                failed += 1
    sys.exit(1 if failed else 0)


main()
