#!/usr/bin/env python3
"""Checks comments and documents: their width, and words that a reader would have to decode.

    check_comments.py [--self-test]

A line with a comment has at most 100 columns. A comment has none of the phrases below, for which
the field has terms (docs/glossary.md). Checked are C and C++, CMake, shell, Python and Markdown. A
docstring is a comment; so is Markdown outside of code, tables, headings and pictures.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDEST = 100
CHECKED = ("*.h", "*.cpp", "*.c", "*.cmake", "*.cmake.in", "*CMakeLists.txt", "*.sh", "*.py", "*.md", "run", ".ci/run")
# Tables of cases, in which a comment beside each row is clearer than one above it.
WIDE = ("bench/shapes_conv.cpp", "tests/unit/test_library_conv_bytes.cpp")
# Written by the command.
GENERATED = re.compile(r"docs/(primitives|functions|performance[\w-]*)\.md")
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
    """The text after // outside of strings, or None."""
    bare = re.sub(r'"(\\.|[^"\\])*"', lambda m: "_" * len(m[0]), line)
    at = bare.find("//")
    return None if at < 0 or bare[at - 1 : at] == ":" else line[at + 2 :]


def hash_comment_of(line):
    """The text after # outside of strings and words, as in CMake, shell and Python."""
    bare = re.sub(r'"(\\.|[^"\\])*"|\'[^\']*\'', lambda m: "_" * len(m[0]), line)
    found = re.search(r"(?:^|\s)#(?!!)", bare)
    return None if not found else line[found.end():]


def prose_of_markdown(text):
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        code ^= line.lstrip().startswith("```")
        if not code and not line.startswith(("|", "    ", "#", "!", "```")):
            yield number, line, line


def comments(path, text):
    """The lines with a comment: number, line, comment."""
    if path.endswith(".md"):
        if not GENERATED.fullmatch(path):
            yield from prose_of_markdown(text)
        return
    c_like, python = path.endswith((".h", ".cpp", ".c")), path.endswith(".py")
    inside = None  # of a triple-quoted string: "docstring" or "data"
    for number, line in enumerate(text.split("\n"), 1):
        at_begin = inside
        if python and inside is None and '"""' in line:
            at_begin = "docstring" if line.lstrip().startswith('"""') else "data"
        if python and line.count('"""') % 2:
            inside = at_begin if inside is None else None
        if at_begin == "docstring":
            yield number, line, line
        elif at_begin is None:
            comment = comment_of(line) if c_like else hash_comment_of(line)
            if comment is not None:
                yield number, line, comment


def findings(path, text):
    for number, line, comment in comments(path, text):
        if len(line) > WIDEST and path not in WIDE and "://" not in comment:
            yield f"{path}:{number}: {len(line)} columns; a line with a comment, or of a document, has at most {WIDEST}"
        for phrase, instead in BANNED.items():
            if found := re.search(phrase, comment):
                yield f'{path}:{number}: "{found[0]}"; write: {instead}'


def self_test():
    wrong = [
        ("x.cpp", "int x; // " + "a" * 100),
        ("x.cpp", "// outputs that pass the caches by"),
        ("x.cpp", "// the sum of what x is one of"),
        ("x.cpp", "f(); // nor here"),
        ("run", "# " + "a" * 100),
        ("x.cmake", "set(x 1) # nor here"),
        ("x.py", '"""' + "a" * 100 + '"""'),
        ("x.py", '"""First.\n\n' + "a" * 101 + '\n"""'),
        ("x.py", '"""Nor here: is no name for x."""'),
        ("x.md", "Text.\n\n```\ncode\n```\n" + "a " * 51),
        ("x.md", "- Nor this: the same weather."),
    ]
    right = [
        ("x.cpp", 'print("//' + "a" * 100 + '");'),
        ("x.cpp", "// non-temporal stores"),
        ("x.cpp", "int x = 1;" + " " * 100),
        ("run", "echo '# " + "a" * 100 + "'"),
        ("run", "${#name}" + " " * 100),
        ("x.py", 'x = """\n' + "a" * 101 + '\n"""'),
        ("x.py", '"""First.\n"""\n' + "a" * 101),
        ("x.py", 'x = """\n""".split()\n' + "a" * 101),
        ("x.md", "| " + "a" * 101 + " |\n    " + "a" * 101 + "\n```\n" + "a" * 101 + "\n```\n"),
        ("docs/primitives.md", "a" * 101),
    ]
    for path, text in wrong:
        assert list(findings(path, text)), text
    for path, text in right:
        assert not list(findings(path, text)), text


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *CHECKED], cwd=ROOT,
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
