#include "schedules/library/table.h"

#include "support/names.h"

namespace kumiko::library {

const std::vector<LibraryTemplate> &templates() {
    static const std::vector<LibraryTemplate> table = {};
    return table;
}

const LibraryTemplate *find_template(const Op &op) {
    for (const LibraryTemplate &t : templates()) {
        if (t.matches(op)) return &t;
    }
    return nullptr;
}

const LibraryTemplate &template_named(const std::string &name) {
    std::vector<std::string> names;
    for (const LibraryTemplate &t : templates()) {
        if (t.name == name) return t;
        names.push_back(t.name);
    }
    throw UserError("there is no library schedule \"" + name + "\"" + suggest(name, names));
}

} // namespace kumiko::library
