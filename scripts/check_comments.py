#!/usr/bin/env python3
"""Checks comments: their width, and words that a reader would have to decode.

    check_comments.py [--self-test]

A line with a comment has at most 100 columns. A comment has none of the phrases below, for which the field has terms
(docs/glossary.md).
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDEST = 100
# Tables of cases, in which a comment beside each row is clearer than one above it.
WIDE = ("bench/shapes_conv.cpp", "tests/unit/test_driver_conv_bytes.cpp")
BANNED = {
    r"pass(es|ed|ing)? the caches by": "non-temporal store",
    r"is no name for": "is not a valid name",
    r"such a one|none such": "name the noun again",
    r"nor (is this|here)\b": "a sentence of its own",
    r"\bof what \w+ is one\b|\bis what makes\b": "a relative clause with a noun",
    r"\bthe same weather\b": "measured in alternation",
    r"\bas (it|they) lies?\b": "unpacked",
    r"\bat the door\b": "on entry",
    r"\bthought about\b": "evaluated",
}


def comment_of(line):
    """The text after // outside of strings; None without one."""
    bare = re.sub(r'"(\\.|[^"\\])*"', lambda m: "_" * len(m[0]), line)
    at = bare.find("//")
    return None if at < 0 or bare[at - 1 : at] == ":" else line[at + 2 :]


def findings(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        comment = comment_of(line)
        if comment is None:
            continue
        if len(line) > WIDEST and path not in WIDE and "://" not in comment:
            yield f"{path}:{number}: {len(line)} columns; a line with a comment has at most {WIDEST}"
        for phrase, instead in BANNED.items():
            if found := re.search(phrase, comment):
                yield f'{path}:{number}: "{found[0]}"; write: {instead}'


def self_test():
    wrong = ["int x; // " + "a" * 100, "// outputs that pass the caches by", "// the sum of what x is one of", "f(); // nor here"]
    right = ['print("//' + "a" * 100 + '");', "// non-temporal stores", "int x = 1;" + " " * 100]
    for line in wrong:
        assert list(findings("x.cpp", line)), line
    for line in right:
        assert not list(findings("x.cpp", line)), line


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.h", "*.cpp", "*.c"], cwd=ROOT,
                           text=True, capture_output=True, check=True).stdout.split()
    all_found = []
    for path in files:
        full = os.path.join(ROOT, path)
        if os.path.exists(full):
            with open(full) as file:
                all_found += findings(path, file.read())
    print("\n".join(all_found[:50]))
    if len(all_found) > 50:
        print(f"and {len(all_found) - 50} more")
    sys.exit(1 if all_found else 0)


main()
