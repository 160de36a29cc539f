#!/usr/bin/env python3
"""Checks that every source and every header compiles by itself.

    check_sources.py BUILD_FOLDER [PATH...]    all that git knows, or those below the paths

The build compiles several sources together (KUMIKO_UNITY), so another source may hide a missing
#include. This check parses each source alone, with the precompiled header of the build folder, or
without it in rooms without Halide. A header that is the first #include of a source is checked with
that source; the other headers are parsed alone.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

WITHOUT_HALIDE = ("support/", "sim/", "tests/sim/", "runtime/", "targets/chip/layout/", "targets/chip/micro/", "targets/chip/move/")
# Baseline libraries need headers of other projects; bench/CMakeLists.txt compiles each by itself.
LEFT_OUT = ("bench/peers_onednn", "bench/peers_libxsmm", "bench/peers_xnnpack", "tests/ops/", "docs/",
            "sim/kernels/")  # parts of one header, for several instruction sets
EMBEDDED = [f'-DKUMIKO_{name}="/dev/null"' for name in ("EMBEDDED", "COST_MODEL", "WIDE_COST_MODEL", "CHIP_COST_MODEL",
                                                        "TRAINING_TASKS", "DEPS", "ONNXRUNTIME_PEER", "PEER_ONEDNN",
                                                        "PEER_LIBXSMM", "PEER_XNNPACK", "RUNTIME_SOURCES")]


def flags(build):
    """The compiler, its flags, and those of the precompiled header, from the build's commands."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        commands = {c["file"]: shlex.split(c["command"]) for c in json.load(file)}
    anchor = next(words for words in commands.values() if "-include" in words)
    compiler = next(i for i, word in enumerate(anchor) if re.search(r"(g\+\+|c\+\+|clang\+\+)[-\d.]*$", word))
    words = anchor[compiler : anchor.index("-o")]
    at = words.index("-include")
    precompiled = words[at : at + 2]
    del words[at : at + 2]
    for path, other in commands.items():  # LLVM's headers, which only targets/cpu has
        if "/targets/cpu/" in path or "kumiko_targets_cpu" in path:
            for i, word in enumerate(other):
                if word == "-isystem" and other[i + 1] not in words:
                    words += other[i : i + 2]
            break
    return words + ["-w", "-fsyntax-only", f"-DKUMIKO_BINARY_DIR=\"{os.path.abspath(build)}\""], precompiled


def main(build, *below):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.h", "*.cpp"], cwd=root, text=True,
                            capture_output=True, check=True).stdout.split()
    files = [f for f in listed if not f.startswith(LEFT_OUT) and os.path.exists(os.path.join(root, f))]
    first = set()
    for f in files:
        if f.endswith(".cpp"):
            with open(os.path.join(root, f)) as source:
                include = re.search(r'^#include "(.*?)"', source.read(), re.M)
            if include:
                first.add(include[1])
    files = [f for f in files if f not in first and (not below or f.startswith(tuple(below)))]
    words, precompiled = flags(build)

    with tempfile.TemporaryDirectory() as scratch:

        def check(f):
            source = os.path.join(root, f)
            if f.endswith(".h"):
                source = os.path.join(scratch, f.replace("/", "_") + ".cpp")
                with open(source, "w") as file:
                    file.write(f'#include "{f}"\n')
            own = [] if f.startswith(WITHOUT_HALIDE) else precompiled
            defined = [f'-DKUMIKO_SOURCE_DIR="{root}"', *EMBEDDED]
            done = subprocess.run(words + own + defined + [source], cwd=build, text=True, capture_output=True)
            return f, done.returncode, done.stderr

        failed = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for f, code, said in pool.map(check, files):
                if code:
                    failed += 1
                    print(f"{f} does not compile by itself:\n{said}")
    print(f"{len(files) - failed} of {len(files)} files compile by themselves")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
