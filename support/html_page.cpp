#include "support/html_page.h"

#include "support/html.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

constexpr const char *page_style = R"(
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --line: #e3e8ee; --box: #f4f7fa; --page: #fff;
  --best: #1f6fb2; --chance: #c2703d; --dot: #1f6fb255; --dot2: #c2703d77; --good: #2a8a4a; --bad: #b3403a }
@media (prefers-color-scheme: dark) { :root { --ink: #dbe3ea; --soft: #93a1ae; --line: #2b343e; --box: #222a33;
  --page: #14191f;
  --best: #62a8e0; --chance: #e29a66; --dot: #62a8e066; --dot2: #e29a6688; --good: #65bd83; --bad: #e5837d } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem;
  color: var(--ink); background: var(--page) }
h1 { font-size: 1.5rem } h2 { font-size: 1.25rem; margin-top: 3rem; border-top: 1px solid var(--line);
  padding-top: 1.5rem }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem } small, .soft, figcaption { color: var(--soft) }
  figure { margin: 1rem 0 }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
  td.for { color: var(--good) } td.against { color: var(--bad) }
pre, code { font: 13px/1.45 ui-monospace, monospace } pre { background: var(--box); padding: .8rem 1rem;
  border-radius: 6px; overflow-x: auto }
code { overflow-wrap: anywhere } .scroll { overflow-x: auto } a { color: var(--best) }
.facts { display: flex; flex-wrap: wrap; gap: .8rem } .facts div { background: var(--box); padding: .5rem .9rem;
  border-radius: 6px }
.facts b { display: block; font-size: 1.15rem; font-weight: 600 }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
  svg text.name { font-size: 12px; fill: var(--ink) }
.grid { stroke: var(--line); fill: none } .diagonal { stroke: var(--soft); stroke-dasharray: 4 4; fill: none }
  .line { fill: none; stroke-width: 2 }
path.best { stroke: var(--best) } path.chance { stroke: var(--chance); stroke-dasharray: 6 3 }
  circle.dot { fill: var(--dot) } circle.dot2 { fill: var(--dot2) }
figcaption span { margin-right: 1.2rem } figcaption i { display: inline-block; width: .8rem; height: .8rem;
  border-radius: 50%; vertical-align: -1px }
i.best { background: var(--best) } i.chance { background: var(--chance) } i.dot { background: var(--dot) }
  i.dot2 { background: var(--dot2) }
)";

} // namespace

std::string html_page(const std::string &title, const std::string &body, const std::string &style,
                      const std::string &script) {
    std::string h = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
                    html_escaped(title) + "</title>\n<style>\n" + page_style + style +
                    "</style>\n</head>\n<body>\n<h1>" + html_escaped(title) + "</h1>\n" + body;
    if (!script.empty()) h += "<script>\n" + script + "</script>\n";
    return h + "</body>\n</html>\n";
}

std::string html_fact(const std::string &name, const std::string &value) {
    return fmt::format("<div>{}<b>{}</b></div>\n", html_escaped(name), html_escaped(value));
}

std::string html_row(const std::vector<std::string> &cells, size_t numbers, const char *tag) {
    std::string h = "<tr>";
    for (size_t i = 0; i < cells.size(); i++)
        h += fmt::format("<{0}{1}>{2}</{0}>", tag, i >= numbers ? " class=\"n\"" : "", html_escaped(cells[i]));
    return h + "</tr>\n";
}

} // namespace kumiko
