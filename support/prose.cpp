#include "support/prose.h"

#include <cstring>
#include <sstream>

namespace kumiko {

std::string wrap_prose(const std::string &text, const std::string &indent) {
    constexpr size_t columns = 100;
    std::istringstream in(text);
    std::string out, word;
    size_t column = 0;
    while (in >> word) {
        const bool is_operator = std::strchr("-*+#>=", word[0]) != nullptr;
        if (column > 0 && !is_operator && column + 1 + word.size() > columns)
            out += "\n" + indent, column = indent.size();
        else if (column > 0)
            out += " ", column++;
        out += word, column += word.size();
    }
    return out;
}

} // namespace kumiko
