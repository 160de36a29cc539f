#!/usr/bin/env python3
"""Splits the single header of the Halide SDK in two, since a program needs a third of it.

    split_halide.py INCLUDE_FOLDER OUTPUT_FOLDER

Halide.h is the concatenation of Halide's headers, each with its include guard; a header is nested
in the first one that includes it. The outputs are

    HalideCore.h   the headers that formulas need (CORE below): types, expressions, their operators,
                   run-time buffers
    Halide.h       includes HalideCore.h, and has all other headers

Both hold the same declarations as the SDK's Halide.h, so objects compiled against either fit
together.
"""
import os
import re
import sys

CORE = """
    HALIDE_INTRUSIVE_PTR_H HALIDE_HALIDERUNTIME_H HALIDE_TYPE_H HALIDE_ERROR_H HALIDE_DEBUG_H HALIDE_FLOAT16_H
    HALIDE_UTIL_H HALIDE_EXPR_H HALIDE_DEVICEAPI_H HALIDE_TARGET_H HALIDE_DEVICE_INTERFACE_H
    HALIDE_RUNTIME_BUFFER_H HALIDE_BUFFER_H HALIDE_MODULUS_REMAINDER_H HALIDE_CONSTANT_INTERVAL_H HALIDE_SCOPE_H
    HALIDE_FUNCTION_PTR_H HALIDE_LOOP_PARTITIONING_DIRECTIVE_H HALIDE_PREFETCH_DIRECTIVE_H HALIDE_PARAMETER_H
    HALIDE_REDUCTION_H HALIDE_IR_H HALIDE_TUPLE_H HALIDE_IR_OPERATOR_H
""".split()


class Header:
    def __init__(self, guard, begin):
        self.guard, self.begin, self.end, self.inner = guard, begin, None, []


def headers(lines):
    """The tree of headers: the root is HALIDE_H.

    A guard that is a setting, without an #endif of its own header, is not a header.
    """
    root, open_conditions = None, []
    for i, line in enumerate(lines):
        if re.match(r"\s*#\s*if", line):
            guard = re.match(r"#ifndef (\w+_H_?|[A-Z]\w+)\s*$", line)
            header = None
            if guard and re.match(rf"#define {guard[1]}\s*$", lines[i + 1]) and (root is None or opens_header(lines, i)):
                header = Header(guard[1], i)
                outer = next((h for h in reversed(open_conditions) if h), None)
                if outer:
                    outer.inner.append(header)
                else:
                    root = header
            open_conditions.append(header)
        elif re.match(r"\s*#\s*endif", line):
            header = open_conditions.pop()
            if header:
                header.end = i
    return root


def opens_header(lines, i):
    """Whether the guard at line i encloses declarations: settings are over within three lines."""
    return not any(re.match(r"\s*#\s*endif", line) for line in lines[i + 2 : i + 4])


def text(lines, header, chosen):
    """The header without nested ones, then the nested ones in their order. Only chosen ones."""
    result, position, own = [], header.begin, header.guard in chosen
    for inner in header.inner:
        if own:
            result += lines[position : inner.begin]
        result += text(lines, inner, chosen)
        position = inner.end + 1
    if own:
        result += lines[position : header.end + 1]
    return result


def definition(lines, macro):
    """The lines of #define macro, the first one."""
    begin = next(i for i, line in enumerate(lines) if re.match(rf"#define {macro}\b", line))
    end = begin
    while lines[end].endswith("\\"):
        end += 1
    return lines[begin : end + 1]


def main(include, output):
    with open(os.path.join(include, "Halide.h")) as file:
        lines = file.read().split("\n")
    root = headers(lines)
    names, todo = set(), [root]
    while todo:
        header = todo.pop()
        names.add(header.guard)
        todo += header.inner
    missing = set(CORE) - names
    if missing:
        sys.exit(f"split_halide.py: {include}/Halide.h has no {', '.join(sorted(missing))}: Halide 21 is needed")
    licence = lines[: root.begin]
    undefined = [line for line in lines[root.inner[-1].end if root.inner else 0 :] if re.match(r"#undef \w+", line)]
    macros = [line.split()[1] for line in undefined]
    keep = ["#ifndef HALIDE_KEEP_MACROS"] + undefined + ["#endif"]

    core = text(lines, root, set(CORE))
    again = []
    for macro in macros:
        again += [f"#undef {macro}"] + definition(lines, macro)
    rest = text(lines, root, names - set(CORE) - {root.guard})
    files = {
        "HalideCore.h": ["#ifndef HALIDE_CORE_H", "#define HALIDE_CORE_H"] + core + keep + ["#endif"],
        "Halide.h": ["#ifndef HALIDE_H", "#define HALIDE_H", '#include "HalideCore.h"'] + again + rest + keep + ["#endif"],
    }
    os.makedirs(output, exist_ok=True)
    for name, content in files.items():
        path, content = os.path.join(output, name), "\n".join(licence + content) + "\n"
        if not os.path.exists(path) or open(path).read() != content:
            with open(path, "w") as file:
                file.write(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
