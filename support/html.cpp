#include "support/html.h"

namespace kumiko {

std::string html_escaped(const std::string &text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '&':
            out += "&amp;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&#39;";
            break;
        default:
            out += static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t' ? ' ' : c;
        }
    }
    return out;
}

} // namespace kumiko
