// oneDNN's functions of one value, by our names.
#pragma once

#include <dnnl.hpp>

#include <optional>
#include <string>

namespace kumiko::bench {

struct OneDnnFunction {
    dnnl::algorithm which;
    float alpha = 0, beta = 0;
};

// Nothing for a function that oneDNN has not.
std::optional<OneDnnFunction> onednn_function(const std::string &name);

} // namespace kumiko::bench
