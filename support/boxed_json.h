// JSON for public headers: nlohmann's header takes a second to compile, its forward declarations
// take almost none.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace kumiko {

// Keys keep their insertion order, because the files are read by people and compared with diff.
using Json = nlohmann::ordered_json;

// A JSON value behind a pointer, copied by value. It converts to the JSON value; `*` and `->`
// access its methods, which requires support/json.h.
template<typename T>
class Boxed {
public:
    Boxed(); // null
    Boxed(std::nullptr_t);
    Boxed(const T &value);
    Boxed(T &&value);
    Boxed(const Boxed &other);
    Boxed(Boxed &&other) noexcept; // leaves null in `other`
    Boxed &operator=(const Boxed &other);
    Boxed &operator=(Boxed &&other) noexcept;
    ~Boxed();

    T &operator*();
    const T &operator*() const;
    T *operator->() { return &**this; }
    const T *operator->() const { return &**this; }
    operator const T &() const { return **this; }
    bool operator==(const Boxed &other) const;
    std::string dump(int indent = -1) const; // as text; on one line unless `indent` is given

private:
    std::unique_ptr<T> value_; // null pointer: JSON null
};

extern template class Boxed<nlohmann::json>;
extern template class Boxed<nlohmann::ordered_json>;

} // namespace kumiko
