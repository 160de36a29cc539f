// oneDNN's unary functions by our names.
#pragma once

#include <dnnl.hpp>

#include <optional>
#include <string>

namespace kumiko::bench {

struct OneDnnFunction {
    dnnl::algorithm which;
    float alpha = 0, beta = 0;
};

// Nullopt for a function that oneDNN lacks.
std::optional<OneDnnFunction> onednn_function(const std::string &name);

} // namespace kumiko::bench
