#include "support/names.h"

#include "support/error.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace kumiko {

namespace {

// Keywords of C23 and C++20, because compilers of both read generated headers.
constexpr std::string_view keywords =
    " _Alignas _Alignof _Atomic _BitInt _Bool _Complex _Decimal128 _Decimal32 _Decimal64 _Generic _Imaginary _Noreturn "
    "_Static_assert _Thread_local and_eq char16_t char32_t char8_t co_await co_return co_yield concept consteval "
    "constexpr constinit decltype not_eq or_eq typeof typeof_unqual wchar_t xor_eq alignas alignof and asm auto bitand "
    "bitor bool break case catch char class compl const const_cast continue "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not nullptr operator or private protected public register "
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "while xor ";

bool starts(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }

bool continues(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string lower(std::string_view text) {
    std::string out(text);
    for (char &c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

} // namespace

bool is_keyword(std::string_view name) {
    std::string word = " ";
    word.append(name).append(" ");
    return keywords.find(word) != std::string_view::npos;
}

bool is_identifier(std::string_view name) {
    return !name.empty() && starts(name[0]) && std::all_of(name.begin(), name.end(), continues) && !is_keyword(name);
}

void require_identifier(std::string_view name, std::string_view what) {
    if (is_identifier(name)) return;
    std::string message = std::string(what) + " name '" + std::string(name) + "' ";
    if (name.empty()) {
        message += "is empty";
    } else if (is_keyword(name)) {
        message += "is a keyword of C or C++";
    } else {
        message += "is not an identifier";
    }
    throw UserError(message + "; use letters, digits and '_', not beginning with a digit, for example '" +
                    to_identifier(name.empty() ? what : name) + "'");
}

std::string to_identifier(std::string_view text) {
    std::string out(text);
    for (char &c : out) {
        if (!continues(c)) c = '_';
    }
    if (out.empty() || !starts(out[0]) || is_keyword(out)) out.insert(out.begin(), '_');
    return out;
}

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), size_t(0));
    for (size_t i = 1; i <= a.size(); i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); j++) {
            size_t same = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + same});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string> &candidates) {
    std::string best;
    size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1; // the distance must be smaller
    for (const std::string &candidate : candidates) {
        size_t distance = lower(candidate) == lower(name) ? 0 : edit_distance(name, candidate);
        // A short name without any common character is not a plausible match.
        if (distance >= std::max(name.size(), candidate.size())) continue;
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

std::string suggest(std::string_view name, const std::vector<std::string> &candidates) {
    if (std::string best = nearest_name(name, candidates); !best.empty()) return " (did you mean '" + best + "'?)";
    if (candidates.empty()) return "";
    std::string out = "; there are: ";
    for (size_t i = 0; i < candidates.size(); i++)
        out += (i ? ", " : "") + (candidates[i].empty() ? "\"\"" : candidates[i]);
    return out;
}

std::string quoted_list(const std::vector<std::string> &names) {
    if (names.empty()) return "none";
    std::string out;
    for (size_t i = 0; i < names.size(); i++) {
        if (i) out += i + 1 == names.size() ? " and " : ", ";
        out += "'" + names[i] + "'";
    }
    return out;
}

std::string UniqueNames::fresh(const std::string &wish) {
    std::string name = wish;
    for (int n = 1; !take(name); n++) name = wish + "_" + std::to_string(n);
    return name;
}

} // namespace kumiko
