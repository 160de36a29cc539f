#!/usr/bin/env python3
"""Writes the complete test files that a page shows.

    doc_tests.py PAGE.md FOLDER

A C++ block whose first line is the comment "// tests/<kind>/<name>.cpp" becomes the file
FOLDER/<kind>/<name>.cpp. Prints the paths of the files, one per line.
"""
import os
import re
import sys


def files_of(lines):
    """(path below tests/, text) of each block."""
    path = None
    for number, line in enumerate(lines, 1):
        begin = re.fullmatch(r"// tests/(\w+/\w+\.cpp)", line)
        if path is None and begin and lines[number - 2] == "```cpp":
            path, body = begin[1], [line]
        elif path is not None and line == "```":
            yield path, "\n".join(body) + "\n"
            path = None
        elif path is not None:
            body.append(line)


def main(page, folder):
    with open(page) as file:
        lines = file.read().split("\n")
    for path, text in files_of(lines):
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        old = None
        if os.path.exists(target):  # an unchanged file is not compiled again
            with open(target) as file:
                old = file.read()
        if old != text:
            with open(target, "w") as file:
                file.write(text)
        print(target)


main(*sys.argv[1:])
