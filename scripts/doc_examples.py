#!/usr/bin/env python3
"""Writes a C++ file with one test case per example of a page.

    doc_examples.py PAGE.md FILE.cpp

Code blocks of the page, by the text after the opening fence:

    cpp           defines an Op named `op`, whose kernel gives the bits of `interpret`
    cpp rounded   defines an Op named `op`, whose kernel is within the error bound of `interpret`
    cpp error     throws an error, whose message is the `text` block that follows; its lines are
                  joined by blanks

Blocks of other languages are not examples. tests/unit/doc_examples.h has the checks.
"""
import os
import re
import sys

CHECKS = {"cpp": "check_example", "cpp rounded": "check_rounded_example", "cpp error": "check_error_example"}


def blocks_of(lines):
    """(kind, number of the first line, lines, nearest heading) of each fenced block."""
    kind, heading = None, ""
    for number, line in enumerate(lines, 1):
        if kind is not None and line == "```":
            yield kind, first, body, heading
            kind = None
        elif kind is not None:
            body.append(line)
        elif line.startswith("```"):
            kind, first, body = line[3:], number + 1, []
        elif line.startswith("#"):
            heading = line.strip("# ")


def cases_of(page, lines):
    """The text of each test case."""
    blocks = list(blocks_of(lines))
    for n, (kind, first, body, heading) in enumerate(blocks):
        if not kind.startswith("cpp"):
            continue
        if kind not in CHECKS:
            sys.exit(f"{page}:{first}: unknown kind of example \"{kind}\"; legal are {', '.join(CHECKS)}")
        code = "\n".join(body)
        if kind == "cpp error":
            if n + 1 == len(blocks) or blocks[n + 1][0] != "text":
                sys.exit(f"{page}:{first}: an error example needs a text block with the message after it")
            message = " ".join(blocks[n + 1][2])
            argument = f"[] {{\n{code}\n}}, R\"text({message})text\""
        else:
            if not re.search(r"^Op op\(", code, re.M):
                sys.exit(f"{page}:{first}: the example does not define an Op named op")
            argument = f"[] {{\n{code}\nreturn op;\n}}"
        # Compilers and errors name the line of the page.
        yield f"#line {first - 1} \"{page}\"\nTEST_CASE(\"{heading}\") {{ {CHECKS[kind]}({argument}); }}\n"


def main(page, target):
    with open(page) as file:
        lines = file.read().split("\n")
    name = os.path.basename(page)
    text = (f"// The examples of {name}, written by scripts/doc_examples.py.\n// Labels: docs\n"
            '#include "tests/unit/doc_examples.h"\n\nusing namespace kumiko;\n\n' + "\n".join(cases_of(name, lines)))
    if os.path.exists(target):  # an unchanged file is not compiled again
        with open(target) as file:
            if file.read() == text:
                return
    with open(target, "w") as file:
        file.write(text)


main(*sys.argv[1:])
