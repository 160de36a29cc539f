// Names: valid identifiers, unique names, and the nearest name for "did you mean" in errors.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kumiko {

// Whether the name is a letter or underscore followed by letters, digits and underscores, and not a
// keyword: op and tensor names become identifiers in generated C headers.
bool is_identifier(std::string_view name);
bool is_keyword(std::string_view name); // of C or C++

// Throws UserError with the violated rule unless is_identifier(name). `what`: for example "axis".
void require_identifier(std::string_view name, std::string_view what);

// Converts the text to an identifier: other characters become '_'; a leading digit or a keyword is
// prefixed with '_'.
std::string to_identifier(std::string_view text);

// The number of insertions, deletions, replacements and swaps of adjacent characters (optimal
// string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or "" if none is close enough to be what was meant (edit
// distance of about a third of its length; a difference only in case is always close). Ties go to
// the earlier candidate.
std::string nearest_name(std::string_view name, const std::vector<std::string> &candidates);

// The end of an error message about an unknown name: " (did you mean 'ko'?)", "; there are: i, j,
// k", or "" without candidates.
std::string suggest(std::string_view name, const std::vector<std::string> &candidates);

// 'a', 'b' and 'c', with the quotes; "none" for an empty list.
std::string quoted_list(const std::vector<std::string> &names);

// Generates unique names: the wish itself if it is free, otherwise with a suffix _1, _2, …
class UniqueNames {
public:
    // Reserves a name. Returns false if it was already in use.
    bool take(const std::string &name) { return taken_.insert(name).second; }
    bool taken(const std::string &name) const { return taken_.count(name) != 0; }
    std::string fresh(const std::string &wish);

private:
    std::set<std::string> taken_;
};

} // namespace kumiko
