#include "support/boxed_json.h"

#include <nlohmann/json.hpp>

namespace kumiko {

template<typename T>
Boxed<T>::Boxed() = default;
template<typename T>
Boxed<T>::Boxed(std::nullptr_t) {}
template<typename T>
Boxed<T>::Boxed(const T &value) : value_(std::make_unique<T>(value)) {}
template<typename T>
Boxed<T>::Boxed(T &&value) : value_(std::make_unique<T>(std::move(value))) {}
template<typename T>
Boxed<T>::Boxed(const Boxed &other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
template<typename T>
Boxed<T>::Boxed(Boxed &&other) noexcept = default;
template<typename T>
Boxed<T> &Boxed<T>::operator=(const Boxed &other) {
    if (this != &other) value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
}
template<typename T>
Boxed<T> &Boxed<T>::operator=(Boxed &&other) noexcept = default;
template<typename T>
Boxed<T>::~Boxed() = default;

template<typename T>
T &Boxed<T>::operator*() {
    if (!value_) value_ = std::make_unique<T>();
    return *value_;
}

template<typename T>
const T &Boxed<T>::operator*() const {
    static const T null;
    return value_ ? *value_ : null;
}

template<typename T>
bool Boxed<T>::operator==(const Boxed &other) const {
    return **this == *other;
}

template<typename T>
std::string Boxed<T>::dump(int indent) const {
    return (**this).dump(indent);
}

template class Boxed<nlohmann::json>;
template class Boxed<nlohmann::ordered_json>;

} // namespace kumiko
