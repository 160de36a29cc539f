// Whether a page is well-formed.
#pragma once

#include <string>
#include <vector>

namespace kumiko {

// The first error in the tags and entities; empty if there is none.
inline std::string fault_of_html(const std::string &html) {
    std::vector<std::string> open;
    size_t at = html.find('\n'); // behind the doctype
    while (at < html.size()) {
        const char c = html[at];
        if (c == '&') {
            const size_t end = html.find(';', at);
            if (end == std::string::npos || end > at + 7) return "a bare & at " + html.substr(at, 30);
        }
        if (c == '>') return "a bare > at " + html.substr(at, 30);
        if (c != '<') {
            at++;
            continue;
        }
        size_t end = at + 1;
        bool quoted = false;
        for (; end < html.size() && (quoted || html[end] != '>'); end++) {
            if (html[end] == '"') quoted = !quoted;
            if (html[end] == '<') return "a tag in a tag at " + html.substr(at, 60);
        }
        if (end >= html.size()) return "a tag that does not end: " + html.substr(at, 30);
        const std::string inside = html.substr(at + 1, end - at - 1);
        const std::string name = inside.substr(0, inside.find_first_of(" \n/", 1));
        if (name == "style" || name == "script") {
            end = html.find("</" + name + ">", end) + name.size() + 2;
        } else if (inside[0] == '/') {
            if (open.empty() || open.back() != inside.substr(1)) return "closed and not open: " + inside;
            open.pop_back();
        } else if (inside.back() != '/') {
            open.push_back(name);
        }
        at = end + 1;
    }
    return open.empty() ? "" : "not closed: " + open.back();
}

} // namespace kumiko
