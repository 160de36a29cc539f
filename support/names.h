// Names: what users may call things, fresh names that never clash, and the nearest name for an error's "did you mean".
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kumiko {

// A letter or underscore, then letters, digits and underscores. Such a name is an identifier in C as well, unless it is one
// of C's keywords, which are refused too: names of ops and tensors become names in generated headers.
bool is_identifier(std::string_view name);
bool is_keyword(std::string_view name); // of C or C++

// Ensures is_identifier(name), or throws a UserError that says which rule `name` breaks; `what` is for example "axis".
void require_identifier(std::string_view name, std::string_view what);

// The text as an identifier: other characters become '_', and a leading digit or a keyword gets a '_' in front.
std::string to_identifier(std::string_view text);

// How many characters have to be inserted, removed, replaced, or swapped with their neighbour (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or "" when none is near enough to be what was meant (about a third of its characters;
// a difference in case alone is always near). Ties go to the earlier candidate.
std::string nearest_name(std::string_view name, const std::vector<std::string> &candidates);

// The end of a message about an unknown name: " (did you mean 'ko'?)" or "; there are: i, j, k", or "" without candidates.
std::string suggest(std::string_view name, const std::vector<std::string> &candidates);

// 'a', 'b' and 'c', with the quotes; "none" for an empty list.
std::string quoted_list(const std::vector<std::string> &names);

// Hands out names that differ from all names so far: the wish itself, else the wish with _1, _2, ...
class UniqueNames {
public:
    // Marks a name as taken. Returns false if it was taken already.
    bool take(const std::string &name) { return taken_.insert(name).second; }
    bool taken(const std::string &name) const { return taken_.count(name) != 0; }
    std::string fresh(const std::string &wish);

private:
    std::set<std::string> taken_;
};

} // namespace kumiko
