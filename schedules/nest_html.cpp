#include "schedules/nest_text.h"
#include "support/atomic_file.h"
#include "support/html.h"

#include <sstream>

namespace kumiko {

namespace {

const char *const page_head = R"(<meta charset="utf-8">
<style>
body { font: 14px/1.5 ui-monospace, monospace; margin: 2em; color: #222; background: #fff }
details { margin-left: 1.4em; border-left: 1px solid #ddd; padding-left: .4em }
details > div { margin-left: 1.4em; padding-left: 1.1em }
summary { cursor: pointer }
.compute, .copy { color: #1a5fb4; font-weight: bold }
.parallel { color: #26a269 } .vectorized { color: #a347ba } .unrolled { color: #c64600 }
.leaf { color: #666 }
</style>
)";

std::string first_word(const std::string &text) {
    const std::string word = text.substr(0, text.find(' '));
    for (const char *known : {"compute", "copy", "for", "parallel", "vectorized", "unrolled"}) {
        if (word == known) return word;
    }
    return "leaf";
}

} // namespace

std::string NestText::to_html() const {
    std::vector<std::pair<size_t, std::string>> lines; // indentation, text
    std::istringstream in(*this);
    for (std::string l; std::getline(in, l);) {
        const size_t at = l.find_first_not_of(' ');
        if (at != std::string::npos) lines.emplace_back(at, l.substr(at));
    }
    std::ostringstream out;
    out << "<!doctype html>\n<title>" << html_escaped(title_) << "</title>\n"
        << page_head << "<h1>" << html_escaped(title_) << "</h1>\n";
    std::vector<size_t> open; // the indentations of open elements
    for (size_t n = 0; n < lines.size(); n++) {
        const auto &[depth, text] = lines[n];
        for (; !open.empty() && open.back() >= depth; open.pop_back()) out << "</details>\n";
        const std::string line = "<span class=\"" + first_word(text) + "\">" + html_escaped(text) + "</span>";
        if (n + 1 < lines.size() && lines[n + 1].first > depth) {
            out << "<details open><summary>" << line << "</summary>\n";
            open.push_back(depth);
        } else {
            out << "<div>" << line << "</div>\n";
        }
    }
    for (; !open.empty(); open.pop_back()) out << "</details>\n";
    return out.str();
}

void NestText::html(const std::string &file) const { write_file_atomically(file, to_html()); }

} // namespace kumiko
