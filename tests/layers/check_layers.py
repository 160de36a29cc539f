#!/usr/bin/env python3
"""Checks which room includes which.

    check_layers.py ROOT        every source under ROOT keeps to the table below
    check_layers.py --self-test the check itself finds what it should

A room may include itself, the rooms of its row, and what those may include. The table is that of
docs/architecture.md.
"""
import os
import re
import sys
import tempfile

ROOMS = {
    "support": [],
    "runtime": [],
    "dsl": ["support"],
    "machine": ["dsl", "runtime"],
    "ops": ["dsl"],
    "schedules": ["dsl", "machine"],
    "schedules/library": ["schedules", "ops"],
    "sim": ["support"],
    "targets/lower": ["schedules"],
    "targets/cpu": ["targets/lower", "runtime"],
    "targets/halide": ["targets/lower", "runtime"],
    "targets/chip/layout": ["sim"],
    "targets/chip/micro": ["sim"],
    "targets/chip/move": ["targets/chip/layout", "targets/chip/micro"],
    "targets/chip": ["targets/lower", "targets/chip/move"],
    "autotune": ["targets/cpu", "targets/chip", "schedules/library"],
    "graph/ir": ["dsl"],
    "graph/onnx": ["graph/ir"],
    "graph/formulas": ["graph/ir", "ops"],
    "graph/eval": ["graph/onnx", "graph/formulas"],
    "graph/infer": ["graph/eval"],
    "graph/fuse": ["graph/infer"],
    "graph/rules": ["graph/infer"],
    "graph/plan": ["support"],
    "driver": ["autotune", "targets/halide"],
    "graph/build": ["graph/fuse", "graph/rules", "graph/plan", "driver"],
    "graph/report": ["graph/build"],
}
# The top rooms: they may include everything below and one another (the command runs the
# benchmarks), without cycles.
TOPS = ["cli", "bench", "tutorials", "tests", "docs", "examples"]
HALIDE_HEADERS = re.compile(r"<Halide(Core|Buffer|Runtime\w*)?\.h>|\"Halide(Core|Buffer|Runtime\w*)?\.h\"")
ONLY_HALIDE = ["dsl/halide.h", "dsl/halide_passes.h"]
LLVM_ROOM = "targets/cpu"
LLVM_PUBLIC = "targets/cpu/emit.h"
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]', re.M)


def room_of(path):
    parts = path.split("/")
    for depth in (3, 2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and (name in ROOMS or name in TOPS):
            return name
    return None


def reach(room):
    """The rooms that a room may include, itself among them."""
    if room in TOPS:
        return set(ROOMS) | set(TOPS)
    seen, todo = set(), [room]
    while todo:
        r = todo.pop()
        if r not in seen:
            seen.add(r)
            todo += ROOMS[r]
    return seen


def sources(root):
    for folder in sorted(ROOMS) + TOPS + ["cmake"]:
        for directory, _, files in os.walk(os.path.join(root, folder)):
            for name in files:
                if name.endswith((".h", ".hpp", ".cpp", ".c")):
                    yield os.path.relpath(os.path.join(directory, name), root)


def find_cycle(edges):
    """A cycle among rooms as a list of names, or None."""
    state, stack = {}, []

    def visit(node):
        state[node] = "open"
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if state.get(other) == "open":
                return stack[stack.index(other):] + [other]
            if other not in state:
                found = visit(other)
                if found:
                    return found
        stack.pop()
        state[node] = "done"
        return None

    for node in sorted(edges):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return None


def check(root):
    problems, includes, edges = [], {}, {}
    files = sorted(set(sources(root)))
    for path in files:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            includes[path] = [(m.group(1), m.group(2)) for m in INCLUDE.finditer(f.read())]

    for path in files:
        room = room_of(path)
        for quote, name in includes[path]:
            if HALIDE_HEADERS.match(f"<{name}>") and path not in ONLY_HALIDE:
                problems.append(f"{path}: includes {name}; only {' and '.join(ONLY_HALIDE)} do")
            if name.startswith(("llvm/", "llvm-c/")) and room != LLVM_ROOM:
                problems.append(f"{path}: includes {name}; LLVM is known to {LLVM_ROOM} only")
            if quote == "<" or HALIDE_HEADERS.match(f'"{name}"'):
                continue
            target = room_of(name)
            if target is None:
                beside = os.path.join(os.path.dirname(path), name)
                if room == "runtime" and os.path.exists(os.path.join(root, beside)):
                    continue  # the runtime is also compiled outside this tree
                if room != "cmake" and room in ROOMS:
                    problems.append(f'{path}: "{name}" is not written from the root, for example "dsl/tensor.h"')
                continue
            if room is None:
                continue
            if target != room:
                edges.setdefault(room, set()).add(target)
            if target not in reach(room):
                allowed = ", ".join(sorted(reach(room) - {room})) or "nothing"
                problems.append(f"{path}: includes {name}, but {room}/ may include only: {allowed}")

    # Headers through which LLVM would be seen.
    sees = {p for p in files if any(n.startswith(("llvm/", "llvm-c/")) for _, n in includes[p])}
    grown = True
    while grown:
        more = {p for p in files if p not in sees and any(n in sees for _, n in includes[p])}
        grown = bool(more)
        sees |= more
    for path in files:
        if room_of(path) == LLVM_ROOM:
            continue
        for _, name in includes[path]:
            if name in sees and room_of(name) == LLVM_ROOM and name != LLVM_PUBLIC:
                problems.append(f"{path}: includes {name}, which sees LLVM; the only such header for others is {LLVM_PUBLIC}")

    cycle = find_cycle(edges)
    if cycle:
        problems.append("the rooms form a cycle: " + " -> ".join(cycle))
    return files, problems


def self_test():
    cases = [
        ({"dsl/a.h": '#include "support/error.h"', "support/error.h": ""}, None),
        ({"ops/a.h": '#include "support/error.h"', "support/error.h": ""}, None),
        ({"support/a.h": '#include "dsl/b.h"', "dsl/b.h": ""}, "support/ may include only: nothing"),
        ({"ops/a.cpp": '#include "schedules/b.h"'}, "ops/ may include only"),
        ({"schedules/a.cpp": '#include "schedules/library/b.h"'}, "schedules/ may include only"),
        ({"schedules/library/a.cpp": '#include "ops/b.h"'}, None),
        ({"ops/a.cpp": "#include <Halide.h>"}, "only dsl/halide.h and dsl/halide_passes.h do"),
        ({"dsl/halide.h": "#include <Halide.h>"}, None),
        ({"driver/a.cpp": "#include <llvm/IR/IRBuilder.h>"}, "LLVM is known to targets/cpu only"),
        ({"driver/a.cpp": '#include "targets/cpu/x.h"', "targets/cpu/x.h": "#include <llvm/IR/Type.h>"}, "which sees LLVM"),
        ({"driver/a.cpp": '#include "targets/cpu/x.h"', "targets/cpu/x.h": '#include "targets/cpu/y.h"',
          "targets/cpu/y.h": "#include <llvm/IR/Type.h>"}, "which sees LLVM"),
        ({"driver/a.cpp": '#include "targets/cpu/emit.h"', "targets/cpu/emit.h": "#include <llvm/IR/Type.h>"}, None),
        ({"dsl/a.h": '#include "b.h"', "dsl/b.h": ""}, "is not written from the root"),
        ({"runtime/a.c": '#include "kumiko_runtime.h"', "runtime/kumiko_runtime.h": ""}, None),
        ({"dsl/a.h": '#include "machine/b.h"', "machine/b.h": '#include "dsl/a.h"'}, "form a cycle"),
        ({"driver/a.h": '#include "bench/b.h"'}, "driver/ may include only"),
        ({"cli/a.cpp": '#include "bench/b.h"'}, None),
        ({"cli/a.cpp": '#include "bench/b.h"', "bench/b.h": '#include "cli/c.h"'}, "form a cycle"),
    ]
    for i, (tree, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(text + "\n")
            text = "\n".join(check(root)[1])
            if (expected is None) != (text == "") or (expected and expected not in text):
                sys.exit(f"self-test {i}: expected {expected!r}, found {text!r}")
    print(f"{len(cases)} cases pass")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) == 2:
        checked, found = check(sys.argv[1])
        print("\n".join(found) or f"{len(checked)} files keep to the table")
        sys.exit(1 if found else 0)
    else:
        sys.exit(__doc__)
