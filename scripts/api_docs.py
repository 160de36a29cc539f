#!/usr/bin/env python3
"""Makes the API reference with Doxygen: the public headers, and the guides.

    api_docs.py build OUT      writes OUT/html
    api_docs.py headers        lists the public headers
    api_docs.py filter FILE    prints FILE as Doxygen reads it
    api_docs.py --self-test

A warning of Doxygen is an error, and so is a public type without a comment.

Public headers are driver/kumiko.h, the headers that its first comment names, ops/export.h, the C
runtime, and all headers that these include, except those of INTERNAL.

Doxygen ignores plain comments. This script changes these:

    first comment of a file           describes the file
    comment that stands alone         describes the file, too
    comment above a declaration       describes it
    comment behind a declaration      describes it
    // --- title                      begins a group of members
    line that begins with 3 spaces    is code
    name of a header or a guide       is a link

- A declaration without a comment, directly below another one, gets a text if it is an overload of
  that one, or has the same parameters and result.
- All other comments are dropped.
- Lines keep their numbers, except that those up to the first empty line move down by one.

In guides, headings get the ids that GitHub gives them. Links between guides lead to the pages.
Links to other files become names of files. A link to a missing page, heading or file becomes a
reference that Doxygen cannot resolve, which is an error.
"""
import functools
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Headers that public ones include for their own implementation.
INTERNAL = {"autotune/features/features.h", "autotune/measurer.h", "autotune/measurer/protocol.h", "autotune/task.h",
            "dsl/definition.h", "dsl/reach.h"}
# In the order of the list of pages. The first is the main page.
GUIDES = ["README.md", "docs/language.md", "docs/functions.md", "docs/primitives.md", "docs/tuning.md", "docs/libraries.md",
          "docs/own-ops.md", "docs/chip.md", "docs/chip-compiler.md", "docs/chip-layouts.md", "docs/performance.md",
          "docs/performance-zen4.md", "docs/performance-avx2.md", "docs/performance-amx.md", "docs/architecture.md", "docs/glossary.md",
          "docs/decisions/README.md", "CONTRIBUTING.md", "docs/tests.md", "CHANGELOG.md"]


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def exists(path):
    return os.path.exists(os.path.join(ROOT, path))


# ---- what is documented

@functools.cache
def public_headers():
    todo = ["driver/kumiko.h", "ops/export.h", "runtime/kumiko_runtime.h"]
    todo += re.findall(r"^// - (\S+\.h):", read("driver/kumiko.h"), re.M)
    found = []
    while todo:
        path = todo.pop(0)
        if path not in found and path not in INTERNAL and exists(path):
            found.append(path)
            todo += re.findall(r'^#include "([^"]+)"', read(path), re.M)
    return sorted(found)


@functools.cache
def guides():
    """Path → name of the page and of its HTML file. Doxygen itself writes a functions.html."""
    pages = {path: "guide-" + os.path.splitext(os.path.basename(path))[0].lower() for path in GUIDES}
    pages.update({"README.md": "index", "docs/decisions/README.md": "guide-decisions"})
    folder = os.path.join(ROOT, "docs")
    for name in sorted(os.listdir(folder)):  # guides that the list above lacks
        if name.endswith(".md"):
            pages.setdefault("docs/" + name, "guide-" + name[:-3])
    for name in sorted(os.listdir(os.path.join(folder, "decisions"))):
        if re.match(r"\d+-", name):
            pages["docs/decisions/" + name] = "decision-" + name.split("-")[0]
    return pages


@functools.cache
def public_types():
    """Names of the types in namespace kumiko."""
    types = set()
    for path in public_headers():
        text = read(path)
        if re.search(r"^namespace kumiko \{", text, re.M):
            types |= set(re.findall(r"^(?:class|struct|enum class) (\w+)[^;]*\{", text, re.M))
    return types


# ---- text

def escape(text):
    """Text that neither Doxygen nor Markdown reads as markup."""
    text = re.sub(r"\\(?!\|)|[@#%<>*&]", lambda m: "\\" + m[0], text)  # \| is a bar in a table
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    text = re.sub(r"(?<!\w)::", r"\\::", text)
    return re.sub(r"(?<!-)--(?!-)", r"\\--", text)


def code(text):
    """A code span; a link if it is the name of a public type or file."""
    if text in public_types():
        return f'<code>@ref kumiko::{text} "{text}"</code>'
    return f"<code>{path_link(text) or escape(text)}</code>"


def path_link(path):
    """A link to a file of the reference; None for other text."""
    if path in public_headers():
        return f'@ref {path} "{path}"'
    if path in guides():
        return f'<a href="{guides()[path]}.html">{path}</a>'
    return None


PATH = re.compile(r"(?<![\w/.<])(?:[a-z][\w-]*/)+[\w-]+\.(?:h|cpp|md|py|c)\b")


def comment_text(text):
    """The prose of a comment."""
    def span(m):
        return code(m[1])

    def path(m):
        if link := path_link(m[0]):
            return link
        # A file that does not exist is a reference that Doxygen reports.
        return code(m[0]) if exists(m[0]) else "@ref " + m[0]

    out, last = [], 0
    for m in re.finditer(r"`([^`]*)`|" + PATH.pattern, text):
        out += [escape(text[last:m.start()]), span(m) if m[0][0] == "`" else path(m)]
        last = m.end()
    return "".join(out) + escape(text[last:])


def comment_lines(lines):
    """The lines of a comment as Doxygen reads them: as many lines, without comment signs."""
    kinds, in_list = [], False
    for line in lines:
        item = re.match(r"\s*(?:-|\d+\.) ", line)
        in_list = bool(item) or (in_list and line.startswith("  "))
        kinds.append("blank" if not line.strip() else "code" if line.startswith("  ") and not in_list else "text")
    for i, kind in enumerate(kinds):  # empty lines between lines of code
        if kind == "blank" and i > 0 and kinds[i - 1] == "code" and "code" in kinds[i:]:
            following = next(k for k in kinds[i:] if k != "blank")
            kinds[i] = "code" if following == "code" else "blank"
    out, i = [], 0
    while i < len(lines):
        end = i
        while end < len(lines) and (kinds[end] == "code") == (kinds[i] == "code"):
            end += 1
        part = lines[i:end]
        if kinds[i] == "code":
            if out:
                out[-1] += " @code{.cpp}"
            else:
                part[0] = "@code{.cpp} " + part[0]
            part[-1] += " @endcode"
            out += part
        else:
            out += comment_text("\n".join(part)).split("\n")
        i = end
    return out


# ---- headers

def split_comment(line):
    """(code, comment) of a line; the comment is None without one, and has no comment sign."""
    bare = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', lambda m: "_" * len(m[0]), line)
    at = bare.find("//")
    if at >= 0:
        return line[:at].rstrip(), line[at + 2:]
    if m := re.search(r"/\*(.*)\*/\s*$", bare):
        return line[:m.start()].rstrip(), line[m.start() + 2:line.rindex("*/")]
    return line.rstrip(), None


TYPE = re.compile(r"\b(?:class|struct|union|enum)\b[^;=()]*$")


class Scopes:
    """Follows braces. Comments inside of functions and initializers are not documentation."""

    def __init__(self):
        self.stack, self.text, self.parens = [], "", 0
        self.ended = None  # the last complete statement

    def documented(self):
        return all(kind in ("namespace", "type") for kind in self.stack) and self.parens == 0

    def inside_code(self):
        return sum(kind in ("body", "value") for kind in self.stack)

    def has_value(self):
        """Whether a brace here begins the value of a variable."""
        text, n = re.sub(r"template\s*<[^>]*>", "", self.text), 1
        while n:  # default arguments are no value of the declaration
            text, n = re.subn(r"\([^()]*\)", "", text)
        return bool(re.search(r"(?<![=<>!])=(?!=)", text.replace("operator=", "")))

    def between_statements(self):
        return self.documented() and not self.text.strip()

    def feed(self, line):
        self.ended = None
        for c in re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', "0", line):
            if c in "()":
                self.parens += 1 if c == "(" else -1
            if c == "{":
                if re.search(r'\bnamespace\b|extern\s+0$', self.text.strip()):
                    kind = "namespace"
                elif TYPE.search(self.text):
                    kind = "type"
                elif self.parens or self.has_value():
                    kind = "value"
                else:
                    kind = "body"
                self.stack.append(kind)
                if kind in ("namespace", "type"):
                    self.text = ""
            elif c == "}":
                kind = self.stack.pop() if self.stack else "body"
                if kind == "body" and self.inside_code() == 0:
                    self.end()
            elif self.inside_code() == 0:
                if c == ";" and self.parens == 0:
                    self.end()
                else:
                    self.text += c
        self.text += " "
        if re.fullmatch(r"\s*(?:public|private|protected):\s*", self.text):
            self.text = ""

    def end(self):
        if self.text.strip():
            self.ended = self.text.strip()
        self.text = ""


def function_of(statement):
    """(name, result and parameters) of a declaration of a function; None for other statements."""
    bare = re.sub(r"^\s*(?:public|private|protected):|\s*template<[^>]*>", "", statement or "")
    m = re.match(r"\s*([\w:<>&*\s,\[\]]*?)(\w+|operator\S+)\s*(\(.*)", bare, re.S)
    if not m or m[1].startswith(("using", "typedef")):
        return None
    parameters = re.split(r"\)\s*(?:const)?\s*(?::|$)", m[3])[0]
    return m[2], (re.sub(r"\s+", " ", m[1]).strip(), re.sub(r"\s+", " ", parameters))


def c_comments(text):
    """C's comments become lines with //. Lines that only C++ reads are dropped."""
    def lines(m):
        body = re.sub(r"^[ \t]*\* ?", "", m[2], flags=re.M).strip()
        return "\n".join(f"{m[1]}// {line}".rstrip() for line in body.split("\n"))
    text = re.sub(r"^#ifdef __cplusplus\n.*?\n#endif$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"^([ \t]*)/\*(.*?)\*/[ \t]*$", lines, text, flags=re.M | re.S)
    return re.sub(r"^// -{3,} (.*?)(?: -+)?$", r"// --- \1", text, flags=re.M)


def hana_fields(text):
    """Structs that Boost.Hana defines get plain members: (Tile, rows) → Tile rows;"""
    def fields(m):
        out, half = [], ""  # a member may go on in the next line, after a comment
        for line in re.sub(r"BOOST_HANA_DEFINE_STRUCT\(|\)\);", lambda m: ")" if m[0] == "));" else "", m[0]).split("\n"):
            code_part, comment = split_comment(line)
            code_part, half = half + code_part, ""
            if m := re.search(r"\(\w+,\s*$", code_part):
                code_part, half = code_part[:m.start()], m[0]
            members = "; ".join(" ".join(pair) for pair in re.findall(r"\((\w+),\s*(\w+)\)", code_part))
            out.append("    " + " ".join(([members + ";"] if members else []) + (["//" + comment] if comment else [])))
        return "\n".join(line.rstrip() for line in out)
    return re.sub(r"^ *BOOST_HANA_DEFINE_STRUCT\(.*?\)\);[^\n]*", fields, text, flags=re.M | re.S)


def filter_header(text):
    lines = c_comments(hana_fields(text)).split("\n")
    out, scopes = [], Scopes()
    group = None      # the open group of members: depth, end
    inherited = None  # (function, text) of the declaration directly above
    extra = 0        # lines that were added
    i = 0
    while i < len(lines):
        line = lines[i]
        bare = line.strip()
        if not bare:
            inherited = None
            if extra:
                extra -= 1
            else:
                out.append(line)
            i += 1
            continue
        if bare.startswith("//"):
            end = i
            while end < len(lines) and lines[end].strip().startswith("//"):
                end += 1
            indent = line[:len(line) - len(line.lstrip())]
            block = [re.sub(r"^\s*// ?", "", l) for l in lines[i:end]]
            following = lines[end].strip() if end < len(lines) else ""
            inherited = None
            if i == 0:
                out.append("/// @file")
                out += ["/// " + l for l in comment_lines(block)]
                extra = 1
            elif section := re.match(r"--- (.*)", block[0]) if scopes.documented() else None:
                title, _, rest = section[1].partition(" (")
                title = title[:1].upper() + title[1:]
                if title == "Implementation":
                    opening, closing = "/** @cond */", "/** @endcond */ "
                else:
                    opening, closing = f"/** @name {title}{' (' + rest if rest else ''} */ /** @{{ */", "/** @} */ "
                out.append(f"{indent}{group[1] if group else ''}{opening}")
                end = i + 1
                group = len(scopes.stack), closing
            elif (scopes.between_statements() and following and not re.match(r"[}#]|[A-Z_]+\(|\w+:$", following)
                  or following.startswith("#define")):
                converted = comment_lines(block)
                out += [f"{indent}/// {l}" for l in converted]
                whole = " ".join(converted)
                inherited = (None, None if "@code" in whole or "" in block else whole)
            elif scopes.between_statements() and not following and not out[-1] and "type" not in scopes.stack:
                out[-1] = "/// @file"  # about all declarations that follow
                out += ["/// " + l for l in comment_lines(block)]
            else:
                out += [""] * len(block)
            i = end
            continue
        if bare.startswith("#"):
            inherited = None
            while True:
                code_part, _ = split_comment(lines[i])
                out.append(code_part)
                if not lines[i].endswith("\\"):
                    break
                i += 1
            i += 1
            continue
        # A macro that makes a whole declaration.
        if scopes.between_statements() and re.fullmatch(r"[A-Z_]+\(.*\)", bare):
            out.append(line)
            inherited = None
            i += 1
            continue
        code_part, comment = split_comment(line)
        starts = scopes.between_statements()
        depth = len(scopes.stack)
        scopes.feed(code_part)
        if group and (len(scopes.stack) < group[0] or re.match(r"(?:private|protected):", bare)):
            code_part, group = group[1] + code_part, None
        documented = scopes.documented()
        forward = re.match(r"(?:class|struct|enum class) [\w:]+;", bare)
        if comment and (documented or scopes.ended and depth == len(scopes.stack)) and not forward and bare[0] != "}":
            column = len(line) - len(comment) - 2
            texts = [comment.strip()]
            # Lines of comment below it, in the same column, belong to it.
            while i + len(texts) < len(lines) and re.match(rf" {{{column}}}// ", lines[i + len(texts)]) and code_part.strip():
                texts.append(lines[i + len(texts)].strip()[2:].strip())
            text = comment_text("\n".join(texts)).split("\n")
            several = scopes.ended and "(" not in code_part and re.search(r"\w,? *(?:=[^,{]*)?, *\w", code_part)
            if code_part.endswith("{") or (starts and several and len(text) == 1 and "<" not in code_part):
                out.append(f"/** {' '.join(text)} */ {code_part}")
                out += [""] * (len(text) - 1)
            elif code_part.endswith("{}") or not code_part.endswith(("{", "}")) or scopes.ended:
                out.append(f"{code_part} ///< {text[0]}")
                out += [f"{' ' * column}///< {t}" for t in text[1:]]
            i += len(texts)
            inherited = None
            continue
        # A declaration without a comment of its own, in as far as it is one.
        function = function_of(scopes.ended) if documented and scopes.ended else None
        if starts and inherited and inherited[0] and documented and not forward:
            # The statement may go on in the next lines.
            ahead, j = Scopes(), i
            ahead.feed(split_comment(lines[j])[0])
            while not ahead.ended and j + 1 < len(lines) and j < i + 6:
                j += 1
                ahead.feed(split_comment(lines[j])[0])
            below = function_of(ahead.ended)
            above, above_text = inherited
            own_comment = split_comment(lines[j])[1]
            if below and not own_comment and below[0] == above[0]:
                code_part = "/** @overload */ " + code_part
            elif below and not own_comment and above_text and below[1] == above[1] and below[1][0]:
                code_part = f"/** {above_text} */ " + code_part
        if function:
            # A run of declarations that the comment fits inherits it.
            fits = inherited and (inherited[0] is None or inherited[0][1] == function[1] or inherited[0][0] == function[0])
            inherited = (function, inherited[1] if fits else None)
        elif scopes.ended:
            inherited = None
        out.append(code_part)
        i += 1
    if group:
        out.append(group[1])
    return "\n".join(out)


# ---- guides

def slug(heading):
    """The id that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).strip().replace(" ", "-")


@functools.cache
def heading_ids(path):
    """Id of each heading of a guide → its line; the title is the first."""
    ids, fenced = {}, False
    for number, line in enumerate(read(path).split("\n")):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and (m := re.match(r"#+ (.*)", line)):
            name, n = slug(m[1]), 0
            while (name if not n else f"{name}-{n}") in ids:
                n += 1
            ids[name if not n else f"{name}-{n}"] = number
    return ids


def html_id(path, heading):
    return f"{guides()[path]}-" + re.sub(r"[^\w-]", "", heading).encode("ascii", "ignore").decode()


def guide_link(path, text, target):
    """A link of the guide `path`."""
    if re.match(r"\w+://|mailto:", target):
        return f'<a href="{target}">{guide_text(path, text)}</a>'
    file, _, heading = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
    if file == "docs/decisions":
        file = "docs/decisions/README.md"
    if file in guides():
        page = guides()[file]
        if heading and heading not in heading_ids(file):
            return f"@ref {page}-{heading}"
        if path == "docs/decisions/README.md" and page.startswith("decision-") and not heading:
            return f'@subpage {page} "{text}"'
        anchor = f"#{html_id(file, heading)}" if heading and heading_ids(file)[heading] else ""
        return f'<a href="{page}.html{anchor}">{guide_text(path, text)}</a>'
    if not exists(file):
        return f"@ref {file}"
    name = code(file)
    return name if text.strip("`") in (file, target) else f"{guide_text(path, text)} ({name})"


def guide_text(path, text):
    """Text of a guide between headings and blocks of code."""
    def plain(text):
        text = re.sub(r"\\(?!\|)|[@#%<>]", lambda m: "\\" + m[0], text)
        return re.sub(r"(?<![-|\s:])--(?![-|:])", r"\\--", text)

    out, last = [], 0
    for m in re.finditer(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)|!\[([^\]]*)\]\(([^)]*)\)|\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]*)\)|<!--.*?-->",
                         text, re.S):
        out.append(plain(text[last:m.start()]))
        last = m.end()
        if m[1]:
            out.append(code(m[2]))
        elif m[4] is not None:
            file = os.path.normpath(os.path.join(os.path.dirname(path), m[4]))
            image = os.path.relpath(file, "docs")
            out.append(f'<img src="{image}" alt="{m[3]}">' if exists(file) else f"@ref {file}")
        elif m[6] is not None:
            out.append(guide_link(path, m[5], m[6]))
    return "".join(out) + plain(text[last:])


def filter_guide(path, text):
    lines = text.split("\n")
    ids = {number: name for name, number in heading_ids(path).items()}
    out, prose, i = [], [], 0

    def flush():
        if prose:
            out.append(guide_text(path, "\n".join(prose)))
            prose.clear()

    while i < len(lines):
        line = lines[i]
        last = next((l for l in reversed(lines[:i]) if l.strip()), "")
        if m := re.match(r"( *)```(.*)", line):
            flush()
            language = {"cpp": "cpp", "c": "c", "json": "js"}.get(m[2].split(" ")[0], "unparsed")
            out.append(f"{m[1]}~~~{{.{language}}}")
            i += 1
            while i < len(lines) and not lines[i].startswith(m[1] + "```"):
                out.append(lines[i])
                i += 1
            out.append(m[1] + "~~~")
        elif m := re.match(r"(#+) (.*)", line):
            flush()
            title = re.sub(r"`|\*\*", "", m[2])
            name = guides()[path] if i == 0 else html_id(path, ids[i])
            if i == 0 and [read(guide).split("\n")[0] for guide in guides()].count(line) > 1:
                title += f" ({os.path.basename(path)})"  # the list of guides has titles only
            out.append(f"{m[1]} {escape(title)} {{#{'mainpage' if name == 'index' else name}}}")
            if i == 0 and len(ids) > 4 and name != "index":
                out += ["", "[TOC]"]
        elif line.startswith("    ") and not lines[i - 1].strip() and not re.match(r"\s*(?:-|\d+\.) |  ", last):
            flush()
            out.append("~~~{.unparsed}")
            while i < len(lines) and (line := lines[i]).startswith("    "):
                out.append(line[4:])
                i += 1
            out.append("~~~")
            continue
        else:
            prose.append(line)
        i += 1
    flush()
    return "\n".join(out)


# ---- commands

def undocumented(path, text):
    """Lines of types without a comment, and headers without one."""
    lines = text.split("\n")
    if not lines[0].startswith(("//", "/*")):
        yield f"{path}:1: error: the header has no comment at its beginning"
    for i, line in enumerate(lines):
        if not re.match(r"(?:class|struct|enum class|union) [^;]*$|concept ", line):
            continue
        above = i - 1
        while re.match(r"template|requires", lines[above]):
            above -= 1
        if not lines[above].startswith("//") and split_comment(line)[1] is None:
            yield f"{path}:{i + 1}: error: a public type has no comment: {line}"


def filtered(path):
    return filter_guide(path, read(path)) if path.endswith(".md") else filter_header(read(path))


def add_headings_to_search(html):
    """Adds the headings of the guides, by each of their words, to Doxygen's index of names."""
    with open(os.path.join(html, "search/searchdata.js")) as file:
        letters = re.search(r'0: "([^"]*)"', file.read())[1]
    entries = {}  # file of the index → lines
    for path in guides():
        lines = read(path).split("\n")
        title = re.sub(r"[`*]", "", lines[0].lstrip("# "))
        for name, number in heading_ids(path).items():
            heading = re.sub(r"[`*]", "", lines[number].lstrip("# "))
            page = guides()[path] + ".html" + (f"#{html_id(path, name)}" if number else "")
            for word in re.finditer(r"\b[A-Za-z]\w*", heading):
                key = re.sub(r"[^a-z0-9]", lambda m: f"_{ord(m[0]):02x}", heading[word.start():].lower())
                letter = letters.find(word[0][0].lower())
                if letter < 0 or (word.start() and len(word[0]) < 4):
                    continue
                lines_of = entries.setdefault(f"{letter:x}", [])
                texts = [html_text(heading), "../" + page, html_text(title) if number else "guide"]
                lines_of.append(f"  ['{key}_g{len(lines_of)}',['{texts[0]}',['{texts[1]}',1,'{texts[2]}']]]")
    for letter, added in entries.items():
        index = os.path.join(html, f"search/all_{letter}.js")
        with open(index) as file:
            text = file.read().rstrip().removesuffix("];").rstrip()
        with open(index, "w") as file:
            file.write(text + ",\n" + ",\n".join(added) + "\n];\n")


def html_text(text):
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ("\\", "&#92;")):
        text = text.replace(character, entity)
    return text


def build(out):
    os.makedirs(out, exist_ok=True)
    html = os.path.join(out, "html")
    for name in ("html", "input"):
        shutil.rmtree(os.path.join(out, name), ignore_errors=True)
    layout = os.path.join(out, "layout.xml")
    subprocess.run(["doxygen", "-l", layout], check=True, capture_output=True)
    with open(layout) as file:
        text = file.read()
    with open(layout, "w") as file:
        file.write(text.replace('<tab type="pages" visible="yes" title=""', '<tab type="pages" visible="yes" title="Guides"'))
    version = re.search(r"project\(\w+ VERSION ([\d.]+)", read("CMakeLists.txt"))
    log = os.path.join(out, "warnings.txt")
    inputs = []
    for path in list(guides()) + public_headers():
        inputs.append(os.path.join(out, "input/kumiko", path))
        os.makedirs(os.path.dirname(inputs[-1]), exist_ok=True)
        with open(inputs[-1], "w") as file:
            file.write(filtered(path))
    settings = [read("docs/Doxyfile"), f"OUTPUT_DIRECTORY = {out}", f"LAYOUT_FILE = {layout}", f"WARN_LOGFILE = {log}",
                f"PROJECT_NUMBER = {version[1] if version else ''}",
                f"STRIP_FROM_PATH = {out}/input/kumiko", f"STRIP_FROM_INC_PATH = {out}/input", "INPUT = " + " ".join(inputs)]
    missing = [line for path in public_headers() for line in undocumented(path, read(path))]
    run = subprocess.run(["doxygen", "-"], input="\n".join(settings), text=True, cwd=ROOT)
    with open(log) as file:
        warnings = file.read().replace(os.path.join(out, "input/kumiko/"), "") + "\n".join(missing)
    if warnings or run.returncode:
        sys.exit(f"{warnings}\nThe reference has the problems above.")
    add_headings_to_search(html)
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        for name in names:
            if name.endswith(".svg"):
                target = os.path.join(html, os.path.relpath(folder, os.path.join(ROOT, "docs")))
                os.makedirs(target, exist_ok=True)
                shutil.copy(os.path.join(folder, name), target)
    print(os.path.join(html, "index.html"))


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
    elif arguments == ["headers"]:
        print("\n".join(public_headers()))
    elif len(arguments) == 2 and arguments[0] == "build":
        build(os.path.abspath(arguments[1]))
    elif len(arguments) == 2 and arguments[0] == "filter":
        path = os.path.relpath(os.path.abspath(arguments[1]), ROOT)
        sys.stdout.write(filtered(path))
    else:
        sys.exit(__doc__)


def self_test():
    header = """\
// Reads, `a*b`. See dsl/op.h.
//
//   A(i) * 2   // twice
#pragma once

namespace kumiko {

// Adds.
Element sum(const Expr &e, Place where = Place::current());
Element product(const Expr &e, Place where = Place::current());
Element sum(const Expr &e, int n);

class Thing { // of one's own
public:
    // --- loops
    int x; // first
           // line
    int y = 0, z = 0; // both
    int f() const {
        // never shown
        return x;
    }

private:
    int hidden_;
};

struct Forward; // elsewhere

template<typename T = int>
T value(const std::vector<T> &of = {}) {
    return of[0];
}
// Is not a value.
int other();
int another(int x);

// About the following.

// --- implementation
int g();

} // namespace kumiko"""
    expected = """\
/// @file
/// Reads, <code>a\\*b</code>. See @ref dsl/op.h "dsl/op.h".
///  @code{.cpp}
///   A(i) * 2   // twice @endcode
#pragma once
namespace kumiko {

/// Adds.
Element sum(const Expr &e, Place where = Place::current());
/** Adds. */ Element product(const Expr &e, Place where = Place::current());
Element sum(const Expr &e, int n);

/** of one's own */ class Thing {
public:
    /** @name Loops */ /** @{ */
    int x; ///< first
           ///< line
/** both */     int y = 0, z = 0;
    int f() const {

        return x;
    }

/** @} */ private:
    int hidden_;
};

struct Forward;

template<typename T = int>
T value(const std::vector<T> &of = {}) {
    return of[0];
}
/// Is not a value.
int other();
int another(int x);
/// @file
/// About the following.

/** @cond */
int g();

/** @endcond */ }"""
    found = filter_header(header)
    for a, b in zip(found.split("\n"), expected.split("\n")):
        assert a == b, f"{a!r} is not {b!r}"
    assert len(found.split("\n")) == len(header.split("\n")), "a line got another number"
    hana = "    BOOST_HANA_DEFINE_STRUCT(P, (Tile, a), // first\n        // second\n        (Flag, b));"
    assert hana_fields(hana) == "    Tile a; // first\n    // second\n    Flag b;", hana_fields(hana)
    c = "/* About.\n * More. */\n#ifdef __cplusplus\nextern \"C\" {\n#endif\nint f(void); /* why */"
    assert filter_header(c).split("\n") == ["/// @file", "/// About.", "/// More.", "", "", "int f(void); ///< why"], filter_header(c)
    assert list(undocumented("a.h", "// A.\nstruct A {\n};\ntemplate<typename T>\nclass B {\n};\nstruct C;")) == [
        "a.h:5: error: a public type has no comment: class B {"]
    assert slug("`argmax` and argmin, 3×3") == "argmax-and-argmin-33"
    assert guide_text("docs/chip.md", "a [b](#no-heading) @c") == "a @ref guide-chip-no-heading \\@c"
    assert guide_text("docs/chip.md", "[run](../run), `x | <y>`") == r"<code>run</code>, <code>x | \<y\></code>"
    assert guide_text("docs/chip.md", "[start](../run)") == "start (<code>run</code>)"
    assert guide_text("README.md", "[`t`](docs/chip.md#time)") == '<a href="guide-chip.html#guide-chip-time"><code>t</code></a>'


if __name__ == "__main__":
    main(sys.argv[1:])
