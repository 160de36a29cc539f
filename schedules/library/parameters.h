// Typed parameters of library schedules. A struct described by Boost.Hana is the only definition:
//
//   struct MatmulParameters {
//       BOOST_HANA_DEFINE_STRUCT(MatmulParameters,
//           (Tile, rows),      // rows of C held in registers
//           (Choice, pack_b),  // where the packed block of B lives
//           (Flag, parallel)); // spread the columns over cores
//   };
//   MatmulParameters p;
//   p.rows = Tile(6, {1, 2, 4, 6, 8});            // value, then the legal values
//   p.pack_b = Choice("L2", {"none", "L1", "L2"});
//   p.parallel = Flag(true);                      // Flag(true, {true}) if it is the only choice
//
// Names, JSON, command-line text, search space, random points and one-step mutations are derived by
// reflection: here for structs, and in space.h behind an interface. Adding a parameter changes only
// its line in the struct.
//
// A parameter holds its value and the values that are legal for this op and machine, in the order
// in which a search steps through them. Neighbouring values of a Tile should behave alike.
#pragma once

#include "support/error.h"
#include "support/json.h"
#include "support/random.h"

#include <boost/hana.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace kumiko {

// Base of all parameter types: the legal values and the index of the current one.
template<typename T>
class LegalValue {
public:
    LegalValue() = default;
    // Requires that `value` is among `legal` and that `legal` has no duplicates; throws
    // InternalError.
    LegalValue(T value, std::vector<T> legal);
    explicit LegalValue(T value) : LegalValue(value, std::vector<T>{value}) {}

    T value() const { return values_.at(index_); }
    const std::vector<T> &legal() const { return values_; }
    size_t count() const { return values_.size(); }
    size_t index() const { return index_; }
    // Requires index < count().
    void set_index(size_t index);
    // Throws UserError that names the parameter and lists the legal values.
    void set(const T &value, const std::string &name);
    // Like set(), from JSON, which holds the value itself, and from command-line text.
    void set_json(const Json &json, const std::string &name);
    void set_text(const std::string &text, const std::string &name);
    Json json() const { return value(); }
    std::string text() const;

    bool operator==(const LegalValue &other) const { return value() == other.value(); }

private:
    std::vector<T> values_ = {T()};
    size_t index_ = 0;
};

// An integer: the factor of a split, a width, a distance. Its neighbours are the next smaller and
// larger legal values.
class Tile : public LegalValue<int64_t> {
public:
    using LegalValue::LegalValue;
    operator int64_t() const { return value(); }
    static constexpr bool ordered = true;
    // The legal tile sizes in [low, high] for an axis of this extent, ascending: powers of two, 3/2
    // of them, divisors of the extent, and the extent itself. Never empty: at least the value
    // nearest to low.
    static std::vector<int64_t> sizes(int64_t extent, int64_t low, int64_t high);
    // A Tile whose value is the legal one nearest to `wish`.
    static Tile nearest(int64_t wish, std::vector<int64_t> legal);
};

// One of several names. All other values are neighbours.
class Choice : public LegalValue<std::string> {
public:
    using LegalValue::LegalValue;
    Choice() = default;
    Choice(const char *value, std::vector<std::string> legal) : LegalValue(std::string(value), std::move(legal)) {}
    operator std::string() const { return value(); }
    bool is(const std::string &name) const { return value() == name; }
    static constexpr bool ordered = false;
};

// Yes or no.
class Flag : public LegalValue<bool> {
public:
    Flag() = default;
    Flag(bool value, std::vector<bool> legal = {false, true}) : LegalValue(value, std::move(legal)) {}
    operator bool() const { return value(); }
    static constexpr bool ordered = false;
};

// ---- A struct of parameters ---------------------------------------------------------------------

// Calls f(name, parameter) for each member in declaration order; P may be const.
template<typename P, typename F>
void for_each_parameter(P &parameters, F &&f) {
    boost::hana::for_each(boost::hana::accessors<std::remove_const_t<P>>(), [&](auto &&member) {
        f(std::string(boost::hana::to<const char *>(boost::hana::first(member))),
          boost::hana::second(member)(parameters));
    });
}

template<typename P>
std::vector<std::string> parameter_names() {
    std::vector<std::string> names;
    P parameters;
    for_each_parameter(parameters, [&](const std::string &name, auto &) { names.push_back(name); });
    return names;
}

// {"rows": 6, "pack_b": "L2", "parallel": true}
template<typename P>
Json parameters_to_json(const P &parameters) {
    Json json = Json::object();
    for_each_parameter(parameters, [&](const std::string &name, const auto &p) { json[name] = p.json(); });
    return json;
}

// Sets the parameters that the object names and leaves the others. Throws UserError for an unknown
// name, a wrong type or a value that is not legal, and then leaves `parameters` unchanged.
template<typename P>
void parameters_from_json(P &parameters, const Json &json);

// Like parameters_from_json, from command-line text, "rows=6,pack_b=L2".
template<typename P>
void parameters_from_text(P &parameters, const std::string &text);
template<typename P>
std::string parameters_text(const P &parameters);

// Equal names and values give equal hashes on every machine.
template<typename P>
std::string parameters_hash(const P &parameters);

// ---- Implementation -----------------------------------------------------------------------------

// Splits "a=1,b=x" into pairs. Throws UserError for a part without '='.
std::vector<std::pair<std::string, std::string>> split_parameter_text(const std::string &text);
[[noreturn]] void unknown_parameter(const std::string &name, const std::vector<std::string> &names);
std::string hash_of_json(const Json &json);

template<typename P>
void parameters_from_json(P &parameters, const Json &json) {
    if (!json.is_object()) throw UserError("parameters: expected an object of names and values, found " + json.dump());
    P changed = parameters;
    for (const auto &[key, value] : json.items()) {
        bool found = false;
        for_each_parameter(changed, [&, &key = key, &value = value](const std::string &name, auto &p) {
            if (name != key) return;
            p.set_json(value, name);
            found = true;
        });
        if (!found) unknown_parameter(key, parameter_names<P>());
    }
    parameters = std::move(changed);
}

template<typename P>
void parameters_from_text(P &parameters, const std::string &text) {
    P changed = parameters;
    for (const auto &[key, value] : split_parameter_text(text)) {
        bool found = false;
        for_each_parameter(changed, [&, &key = key, &value = value](const std::string &name, auto &p) {
            if (name != key) return;
            p.set_text(value, name);
            found = true;
        });
        if (!found) unknown_parameter(key, parameter_names<P>());
    }
    parameters = std::move(changed);
}

template<typename P>
std::string parameters_text(const P &parameters) {
    std::string text;
    for_each_parameter(parameters, [&](const std::string &name, const auto &p) {
        text += (text.empty() ? "" : ",") + name + "=" + p.text();
    });
    return text;
}

template<typename P>
std::string parameters_hash(const P &parameters) {
    return hash_of_json(parameters_to_json(parameters));
}

} // namespace kumiko
