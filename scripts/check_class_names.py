#!/usr/bin/env python3
"""Checks that a namespace has one class of a name, over all sources.

    check_class_names.py              all sources that git knows
    check_class_names.py --self-test  the check itself finds what it should

Two classes of one name that are never in one source compile and link, but the linker keeps one of
their destructors for both. The check reads the form that clang-format gives: namespaces and their
classes begin at the first column.
"""
import collections
import os
import re
import subprocess
import sys

OPENS = re.compile(r"(?:inline )?namespace\b *([\w:]*) *\{$")
CLASS = re.compile(r"(?:struct|class|union|enum class|enum) (\w+(?:::\w+)*)(?: final)?(?: *:.*)? *\{")


def classes(text):
    """The qualified names of the classes in a source, without those of unnamed namespaces."""
    scopes = []
    for line in text.splitlines():
        opened, found = OPENS.match(line), CLASS.match(line)
        if opened:
            scopes.append(opened[1])
        elif line.startswith("} // namespace"):
            scopes.pop()
        elif found and scopes and all(scopes):
            yield "::".join(scopes + [found[1]])


def repeated(sources):
    places = collections.defaultdict(list)
    for path, text in sources:
        for name in classes(text):
            places[name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def self_test():
    a = "namespace kumiko {\nnamespace {\nstruct Own {\n};\n} // namespace\nclass Table {\n};\nstruct Table::Row {\n};\n} // namespace kumiko\n"
    b = "namespace kumiko {\nnamespace {\nstruct Own {\n};\n} // namespace\nstruct Table : Base {\n};\nclass Later;\n"
    c = "namespace kumiko::chip {\nenum class Table { X };\n} // namespace kumiko::chip\n"
    assert repeated([("a", a), ("b", b), ("c", c)]) == {"kumiko::Table": ["a", "b"]}
    assert list(classes(c)) == ["kumiko::chip::Table"]
    assert repeated([("a", a), ("c", c)]) == {}


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.h", "*.cpp"], cwd=root, text=True,
                            capture_output=True, check=True).stdout.split()
    sources = []
    for path in listed:
        if os.path.exists(os.path.join(root, path)):
            with open(os.path.join(root, path)) as file:
                sources.append((path, file.read()))
    found = repeated(sources)
    for name, paths in sorted(found.items()):
        print(f"{name} is defined in {' and in '.join(paths)}; legal is one class of a name in a namespace")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    self_test() if sys.argv[1:] == ["--self-test"] else main()
